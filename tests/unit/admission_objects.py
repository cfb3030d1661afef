"""Pods, pools and profiles for the tests of admission, and generators of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tensorfusion_iac.admission import AdmissionFacts, Decision, Operation, apply, mutate
from tensorfusion_iac.api import ENABLED_LABEL, GPUPool, Namespace, Owner, key

OWNER = Owner("Deployment", "chat", "0c4f")
FACTS = AdmissionFacts(Namespace("ml", {}), OWNER)


def pool(name: str = "default", *, default: bool = True, local: bool = True, images: bool = True, **client: Any) -> GPUPool:
    annotations = {"tensor-fusion.ai/is-default-pool": "true"} if default else {}
    images_config = {"worker": {"image": "worker:1"}, "client": {"image": "client:1", **client}}
    components = images_config if images else {"client": client}
    spec = {"defaultUsingLocalGPU": local, "componentConfig": components}
    return GPUPool.model_validate({"metadata": {"name": name, "annotations": annotations}, "spec": spec})


POOLS = {"default": pool(images=False)}
POOLS_WITH_IMAGES = {"default": pool()}


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "app:1", **fields}


def pod(annotations: Mapping[str, str] | None = None, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An enabled pod; annotations by short key, `vram-request: 4Gi` if none are given."""
    given = {"vram-request": "4Gi"} if annotations is None else annotations
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "chat-5d9f-",
            "labels": {ENABLED_LABEL: "true", "app": "chat"},
            "annotations": {key(name) if "/" not in name else name: value for name, value in given.items()},
        },
        "spec": {"schedulerName": "default-scheduler", "containers": list(containers) or [container()], **spec},
    }


def after(before: dict[str, Any], decision: Decision) -> dict[str, Any]:
    """The pod with the decision's patch; fails the test if it was refused."""
    assert decision.allowed, decision.message
    changed: dict[str, Any] = apply(before, decision.patch)
    return changed


def changed(before: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The pod after mutation, by default in the default pool (local GPUs, no images)."""
    facts = options.pop("facts", FACTS)
    return after(before, mutate(before, facts, **{"pools": POOLS, **options}))


def find(containers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in containers if item["name"] == name)


def env(container: Mapping[str, Any]) -> dict[str, str]:
    """Variables by name: the value, or `<annotation key>` / `<field>` for the downward API."""
    found = {}
    for item in container.get("env", []):
        if "value" in item:
            found[item["name"]] = item["value"]
        else:
            path = item["valueFrom"]["fieldRef"]["fieldPath"]
            found[item["name"]] = f"<{path.removeprefix('metadata.annotations').strip(chr(91) + chr(93) + chr(39))}>"
    return found


def paths(operations: tuple[Operation, ...]) -> list[str]:
    return [operation["path"] for operation in operations]


names = st.sampled_from(["main", "side", "trainer", "a", "x" * 63, "tensor-fusion-worker"])
_values: dict[str, st.SearchStrategy[str]] = {
    "vram-request": st.sampled_from(["4Gi", "1500Mi", "8Gi"]),
    "vram-limit": st.sampled_from(["8Gi", "16Gi"]),
    "tflops-request": st.sampled_from(["10", "500m"]),
    "tflops-limit": st.sampled_from(["20", "100"]),
    "qos": st.sampled_from(["low", "medium", "high", "critical"]),
    "is-local-gpu": st.sampled_from(["true", "false"]),
    "standalone-worker-mode": st.sampled_from(["true", "false"]),
    "isolation": st.sampled_from(["shared", "soft", "hard", "partitioned"]),
    "gpu-count": st.sampled_from(["1", "2", "8"]),
    "vendor": st.sampled_from(["NVIDIA", "amd", "Ascend", "Intel", "Cerebras", "MooreThreads"]),
    "gpu-model": st.sampled_from(["A100", "L40s", "whatever"]),
    "disable-features": st.sampled_from(["gpu-limiter", "gpu-opt, mem-manager"]),
    "gang-min-members": st.sampled_from(["0", "2", "4"]),
    "enabled-replicas": st.sampled_from(["0", "1", "5"]),
    "workload": st.sampled_from(["shared-workers", "w" * 63]),
    "resolved": st.sampled_from(["{}", "forged", '{"sources":{"gpu-count":"pod"},"gpuCount":8,"containers":["main"]}']),
    "container-gpus": st.just("{}"),
    "visible-devices.main": st.just("all"),
    "grey": st.sampled_from(["off", "on"]),
    "unknown-key": st.just("1"),
}
_env = st.lists(
    st.sampled_from([
        {"name": "A", "value": "1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
        {"name": "TENSOR_FUSION_VRAM_FRACTION", "value": "0.5"},
        {"name": "B", "value": "$(A)"},
    ]),
    max_size=5,
)  # fmt: skip
_resources = st.sampled_from([
    {},
    {"limits": {"nvidia.com/gpu": "2"}},
    {"limits": {"nvidia.com/gpu": 1, "cpu": "1"}, "requests": {"nvidia.com/gpu": 1}},
    {"limits": {"tensor-fusion.ai/vgpu": "3"}},
    {"requests": {"cpu": "1"}},
    {"limits": {"amd.com/gpu": "1"}},
])  # fmt: skip


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "image": "app:1"}
    if draw(st.booleans()):
        made["env"] = draw(_env)
    if draw(st.booleans()):
        made["resources"] = draw(_resources)
    if draw(st.integers(0, 9)) == 0:
        made["securityContext"] = {"privileged": True}
    if draw(st.integers(0, 5)) == 0:
        made["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Plausible pods of all kinds, right and wrong."""
    annotations = {key(name): draw(_values[name]) for name in sorted(draw(st.sets(st.sampled_from(sorted(_values)), max_size=8)))}
    app_names = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    init_names = [f"init-{n}" for n in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(app_names + init_names), min_size=1, unique=True))
        annotations[key("inject-container")] = ", ".join(chosen)
    if draw(st.integers(0, 4)) == 0:
        annotations[key("container-gpu-count")] = json.dumps({name: draw(st.integers(0, 2)) for name in app_names})
    spec: dict[str, Any] = {"containers": [draw(containers(name)) for name in app_names]}
    if init_names:
        spec["initContainers"] = [draw(containers(name)) for name in init_names]
        if draw(st.booleans()):
            spec["initContainers"][0]["restartPolicy"] = "Always"
    optional: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "priorityClassName": draw(st.sampled_from(["cluster-default", "mine", "tensor-fusion-high"])),
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "hostPID": True,
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "dev", "hostPath": {"path": "/dev"}}],
        "runtimeClassName": "mine",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    }
    for field in sorted(draw(st.sets(st.sampled_from(sorted(optional)), max_size=4))):
        spec[field] = optional[field]
    labels = {ENABLED_LABEL: draw(st.sampled_from(["true", "true", "true", "false"]))}
    return {"metadata": {"generateName": "chat-", "labels": labels, "annotations": annotations}, "spec": spec}


_scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=12
)


@st.composite
def junk_pods(draw: st.DrawFn) -> Any:
    """A plausible pod of which one part has been replaced by anything."""
    broken: Any = copy.deepcopy(draw(pods()))  # parts of it may be the strategies' own, which every draw shares
    here: Any = broken
    while True:
        if isinstance(here, dict) and here:
            where: Any = draw(st.sampled_from(sorted(here)))
        elif isinstance(here, list) and here:
            where = draw(st.integers(0, len(here) - 1))
        else:
            return draw(json_values)
        if draw(st.integers(0, 2)) == 0 or not isinstance(here[where], dict | list) or not here[where]:
            here[where] = draw(json_values)
            return broken
        here = here[where]
