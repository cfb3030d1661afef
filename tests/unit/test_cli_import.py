"""`tensorfusion import`: what it prints declares the same objects, reads well, and says what it can't carry."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import CASES, FIXTURES, run
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tensorfusion_iac import components
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.cli.source import spec_tables
from tensorfusion_iac.cli.source.literals import WIDTH, Call, source, text_literal
from tensorfusion_iac.cli.yaml_text import write
from tensorfusion_iac.components import gpupool, workload_spec

# --- what is drawn ---------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,12}[a-z0-9])?", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.example/[a-z]{1,5})?", fullmatch=True)
MAPS = st.dictionaries(KEYS, st.from_regex(r"[a-zA-Z0-9]{0,10}", fullmatch=True), max_size=3)
AMOUNTS = st.sampled_from(
    [
        {"tflops-request": "10", "vram-request": "4Gi"},
        {"tflops-request": "10", "tflops-limit": "20.50", "vram-request": "4096Mi", "vram-limit": "4Gi"},
        {"tflops-limit": "500m", "vram-limit": "4G"},
        {"compute-percent-request": "12.5", "compute-percent-limit": "1e2"},
        {"vram-request": "1.5Gi", "compute-percent-request": "050"},
        {"dedicated-gpu": "true", "gpu-model": "A100"},
        {"isolation": "partitioned", "partition-template": "1g.10gb"},
        {"isolation": "shared"},
    ]
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "qos": st.sampled_from(["low", "medium", "high", "critical"]),
        "vendor": st.sampled_from(["NVIDIA", "nvidia", "MooreThreads"]),
        "workload": NAMES,
        "workload-profile": NAMES,
        "gpupool": NAMES,
        "gpu-indices": st.sampled_from(["0", "0,1", "0, 1", "3,1,2"]),
        "autoscale": st.sampled_from(["true", "false"]),
        "disable-features": st.sampled_from(["gpu-limiter", "gpu-limiter,mem-manager", "gpu-opt , mem-manager"]),
        "eviction-protection": st.sampled_from(["30m", "90s", "1h30m"]),
        "gang-min-members": st.sampled_from(["0", "2"]),
        "enabled-replicas": st.just("1"),
        "is-local-gpu": st.just("true"),
    },
)


@st.composite
def annotation_sets(draw: st.DrawFn, containers: list[str]) -> dict[str, str]:
    found = {**draw(AMOUNTS), **draw(EXTRAS)}
    if len(containers) > 1:
        joined = draw(st.sampled_from([",", ", "])).join(containers)
        split = draw(st.sampled_from(['{"%s":1,"%s":2}', '{"%s": 1, "%s": 2}'])) % (containers[0], containers[1])
        found |= draw(st.sampled_from([{"inject-container": joined}, {"container-gpu-count": split, "is-local-gpu": "true"}]))
        if "container-gpu-count" in found:
            found.pop("gpu-indices", None)
    return {PREFIX + key: value for key, value in found.items()}


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    optional = {
        "command": st.lists(TEXTS, min_size=1, max_size=3),
        "args": st.lists(TEXTS, min_size=1, max_size=3),
        "env": st.lists(st.fixed_dictionaries({"name": NAMES, "value": TEXTS}), min_size=1, max_size=3),
        "ports": st.lists(
            st.one_of(
                st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}),
                st.fixed_dictionaries({"containerPort": st.integers(1, 65535), "name": NAMES}),
            ),
            min_size=1,
            max_size=2,
        ),
        "resources": st.sampled_from([{"limits": {"cpu": 2, "memory": "4Gi"}}, {"requests": {"cpu": "500m"}}, {}]),
        "imagePullPolicy": st.just("Always"),
        "securityContext": st.just({"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}),
    }
    return {"name": name, **draw(st.fixed_dictionaries({"image": st.just("registry.example/app:1")}, optional=optional))}


@st.composite
def pod_templates(draw: st.DrawFn, owner: str, labels: dict[str, str], restart_policy: str | None) -> dict[str, Any]:
    names = draw(st.sampled_from([[owner], ["main"], ["trainer", "evaluator"]]))
    spec: dict[str, Any] = {"containers": [draw(containers(name)) for name in names]}
    spec |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": MAPS,
                "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
                "terminationGracePeriodSeconds": st.integers(0, 600),
                "volumes": st.just([{"name": "cache", "emptyDir": {}}]),
            },
        )
    )
    if restart_policy:
        spec["restartPolicy"] = draw(st.sampled_from([restart_policy, "OnFailure"]))
    metadata = {
        "labels": {**labels, f"{PREFIX}enabled": "true"},
        "annotations": {**draw(MAPS), **draw(annotation_sets(names))},
    }
    return {"metadata": metadata, "spec": spec}


@st.composite
def workloads(draw: st.DrawFn, kind: str, name: str) -> dict[str, Any]:
    selects = kind in ("Deployment", "StatefulSet", "DaemonSet")
    own = (
        draw(st.sampled_from([{"app": name}, {"app": "other"}, {"app": name, "tier": "x"}, {"role": "y"}]))
        if selects
        else draw(MAPS)
    )
    template = draw(pod_templates(name, own, "Never" if kind in ("Job", "CronJob") else None))
    metadata = {"name": name, **draw(st.fixed_dictionaries({}, optional={"namespace": NAMES, "annotations": MAPS}))}
    metadata |= draw(st.sampled_from([{}, {"labels": own}, {"labels": {"other": "label"}}]))
    spec: dict[str, Any] = {"template": template}
    if selects:
        spec["selector"] = draw(st.sampled_from([{"matchLabels": own}, {"matchLabels": dict(list(own.items())[:1])}]))
    if kind in ("Deployment", "StatefulSet"):
        more = {"replicas": st.integers(1, 9), "minReadySeconds": st.integers(0, 9), "revisionHistoryLimit": st.just(3)}
        spec |= draw(st.fixed_dictionaries({}, optional=more))
    if kind == "Deployment":
        more = {"strategy": st.just({"type": "Recreate"}), "paused": st.booleans()}
        spec |= draw(st.fixed_dictionaries({}, optional=more))
    if kind == "StatefulSet":
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        more = {"serviceName": NAMES, "volumeClaimTemplates": st.just([claim]), "updateStrategy": st.just({"type": "OnDelete"})}
        spec |= draw(st.fixed_dictionaries({}, optional={**more, "ordinals": st.just({"start": 1})}))
    if kind in ("Job", "CronJob"):
        more = {"parallelism": st.integers(1, 4), "backoffLimit": st.integers(0, 4), "podFailurePolicy": st.just({"rules": []})}
        spec |= draw(st.fixed_dictionaries({}, optional=more))
    if kind == "CronJob":
        job = {"spec": spec, **draw(st.sampled_from([{}, {"metadata": {"labels": {"a": "b"}}}]))}
        spec = {"schedule": "0 3 * * *", "jobTemplate": job, **draw(st.sampled_from([{}, {"suspend": True, "timeZone": "UTC"}]))}
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


PROFILE_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "resources": st.sampled_from(
            [
                {"requests": {"tflops": "5", "vram": "3Gi"}, "limits": {"tflops": "15", "vram": "3Gi"}},
                {"requests": {"tflops": 5, "compute": 0}},
                {"limits": {"compute": "50"}},
                {},
            ]
        ),
        "replicas": st.integers(0, 3),
        "poolName": NAMES,
        "qos": st.sampled_from(["low", "high"]),
        "isLocalGPU": st.booleans(),
        "vendor": st.sampled_from(["NVIDIA", "nvidia"]),
        "gpuCount": st.integers(0, 3),
        "gpuModel": st.sampled_from(["A100", ""]),
        "disableFeatures": st.just(["gpu-opt"]),
        "autoScalingConfig": st.sampled_from([{}, {"autoSetResources": {"enable": True, "targetResource": "all"}}]),
        "gangScheduling": st.just({"minMembers": 0, "timeout": "30m", "mode": "Strict"}),
        "sidecarWorker": st.booleans(),
    },
)
POOL_SPECS = st.fixed_dictionaries(
    {"defaultUsingLocalGPU": st.booleans()},
    optional={
        "nodeManagerConfig": st.sampled_from(
            [
                {
                    "nodeSelector": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a/b", "operator": "In", "values": ["c"]}]}]
                    }
                },
                {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}},
                {"defaultVendor": "amd", "provisioningMode": "AutoSelect", "nodePoolRollingUpdatePolicy": {"x": 1}},
            ]
        ),
        "capacityConfig": st.sampled_from(
            [{"oversubscription": {"tflopsOversellRatio": 150}}, {"minResources": {"tflops": "5"}}]
        ),
        "qosConfig": st.sampled_from([{"defaultQoS": "high"}, {"pricing": [{"qos": "low", "requests": {"x": "1"}}]}]),
        "placement": st.just({"mode": "CompactFirst"}),
        "schedulingConfigTemplate": NAMES,
    },
)


@st.composite
def own_resources(draw: st.DrawFn, kind: str, name: str, *, may_be_default: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **draw(st.fixed_dictionaries({}, optional={"labels": MAPS}))}
    if kind == "GPUPool":
        spec = draw(POOL_SPECS)
        if may_be_default and spec["defaultUsingLocalGPU"]:
            metadata["annotations"] = {f"{PREFIX}is-default-pool": "true"}
    else:
        metadata["namespace"] = draw(NAMES)
        spec = {"total": {"maxWorkers": 3}} if kind == "GPUResourceQuota" else draw(PROFILE_SPECS)
    return {"apiVersion": "tensor-fusion.ai/v1", "kind": kind, "metadata": metadata, "spec": spec}


WORKLOAD_KINDS = ("Deployment", "StatefulSet", "Job", "CronJob", "DaemonSet")
OWN_KINDS = ("WorkloadProfile", "GPUPool", "TensorFusionWorkload", "GPUResourceQuota")


@st.composite
def manifests(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Several objects, so that one run of a program tries many; their names differ, and no workload finds a given pool."""
    found = []
    for number in range(draw(st.integers(4, 8))):
        kind = draw(st.sampled_from(WORKLOAD_KINDS))
        found.append(draw(workloads(kind, f"w{number}-{draw(NAMES)}")))
    for number in range(draw(st.integers(2, 4))):
        kind = draw(st.sampled_from(OWN_KINDS))
        found.append(draw(own_resources(kind, f"r{number}.{draw(NAMES)}", may_be_default=number == 0)))
    return found


# --- the laws --------------------------------------------------------------------------------------------------------


def said(value: Any) -> Any:
    """What a manifest says: without members that are null, and without empty maps of labels and annotations."""
    if isinstance(value, dict):
        given = {key: said(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in given.items() if not (key in ("labels", "annotations") and item == {})}
    return [said(item) for item in value] if isinstance(value, list) else value


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(item["kind"], item["metadata"]["name"]): said(item) for item in objects}


def imported(objects: list[dict[str, Any]], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """The program of the objects, and what it compiles back to."""
    manifest, program = folder / "in.yaml", folder / "out.py"
    manifest.write_text(write(objects))
    result = run("import", "-f", manifest)
    assert result.exit_code == 0, result.stderr
    program.write_text(result.stdout)
    back = run("compile", program)
    assert back.exit_code == 0, f"{result.stdout}\n{back.stderr}"
    return result.stdout, list(yaml.safe_load_all(back.stdout))


# A run of a program takes seconds, so that shrinking would take minutes.
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(objects=manifests())
def test_what_it_prints_compiles_back_to_the_same_manifests(
    objects: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, back = imported(objects, tmp_path_factory.mktemp("import"))
    assert by_name(back) == by_name(objects)
    assert ast.parse(text)


def formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(WIDTH), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


ASCII = st.text(st.characters(codec="ascii"), max_size=30)
ASCII_VALUES = st.none() | st.booleans() | st.integers() | ASCII
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=30, deadline=None)
@given(st.recursive(ASCII_VALUES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ASCII, inner, max_size=5)))
def test_the_source_is_laid_out_as_a_formatter_does(value: Any) -> None:
    text = (
        source(Call("tfi.AnnotatedDeployment", ("name",), {"first": value, "second": Call("tfi.VGPU", (), {"qos": value})}))
        + "\n"
    )
    assert formatted(text) == text


def test_wide_characters_take_two_columns() -> None:
    text = source(Call("function", (), {"argument": ["工作负载配置" * 4, "工作负载配置" * 3]})) + "\n"
    assert text.count("\n") > 1
    assert formatted(text) == text


@given(VALUES)
def test_source_of_a_value_reads_back_to_it(value: Any) -> None:
    text = source(value)
    assert ast.literal_eval(text) == value


@given(TEXTS)
def test_a_text_of_any_characters_is_one_line_of_source(text: str) -> None:
    literal = text_literal(text)
    assert ast.literal_eval(literal) == text
    assert literal.isprintable()


def test_what_fits_stays_on_a_line_and_the_rest_gets_one_item_a_line() -> None:
    assert source(Call("f", (1,), {"a": [1, 2]})) == "f(1, a=[1, 2])"
    long = source(Call("function", ("x" * 60,), {"argument": ["y" * 30, "z" * 30]}))
    assert long == f'function(\n    "{"x" * 60}",\n    argument=["{"y" * 30}", "{"z" * 30}"],\n)'


# --- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", spec_tables.WORKLOADS, ids=lambda kind: kind[1])
def test_the_table_of_a_workload_is_its_components(kind: tuple[str, str]) -> None:
    table = spec_tables.WORKLOADS[kind]
    shape = getattr(components, table.component).SHAPE
    assert (shape.api_version, shape.kind) == kind
    assert (table.template, dict(table.fields), table.selects, table.restart_policy) == (
        shape.template, dict(shape.spec_fields), shape.selects, shape.restart_policy,
    )  # fmt: skip


def test_the_tables_of_our_resources_are_the_components() -> None:
    assert dict(spec_tables.POOL) == dict(gpupool.PATHS)
    assert dict(spec_tables.PROFILE) == dict(workload_spec.PATHS)


# --- what people see -------------------------------------------------------------------------------------------------

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
  namespace: ml
  resourceVersion: "7"
  annotations: {deployment.kubernetes.io/revision: "3"}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata:
      labels: {app: chat, tensor-fusion.ai/enabled: "true"}
      annotations:
        tensor-fusion.ai/tflops-request: "10"
        tensor-fusion.ai/vram-request: 4Gi
        tensor-fusion.ai/workload-profile: small
        tensor-fusion.ai/container-gpus: '{}'
    spec:
      containers:
        - {name: chat, image: registry.example/app:1, ports: [{containerPort: 8000}]}
status: {replicas: 2}
---
apiVersion: tensor-fusion.ai/v1
kind: WorkloadProfile
metadata: {name: small, namespace: ml}
spec: {qos: high, resources: {requests: {vram: 2Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: chat}
"""


def test_the_program_reads_as_one_would_write_it() -> None:
    result = run("import", "-f", "-", stdin=DEPLOYMENT)
    assert result.exit_code == 0
    notes = [
        "Deployment ml/chat: metadata.resourceVersion is left out: the cluster writes it",
        "Deployment ml/chat: the annotation deployment.kubernetes.io/revision is left out: it is a tool's own",
        "Deployment ml/chat: status is left out: the cluster writes it",
        "Deployment ml/chat: the pods' annotation tensor-fusion.ai/container-gpus is left out: only the system writes it",
        "Service chat is left out: it asks for no GPU",
    ]
    assert result.stderr == "".join(f"note: {note}\n" for note in notes)
    deployment = "".join(f"# {note}\n" for note in notes[:4])
    assert (
        result.stdout
        == f"""\
# Declares what stood in <stdin>; written by `tensorfusion import`.

import tensorfusion_iac as tfi

small = tfi.WorkloadProfile("small", namespace="ml", vgpu=tfi.VGPU(vram_request="2Gi", qos="high"))

{deployment}tfi.AnnotatedDeployment(
    "chat",
    namespace="ml",
    replicas=2,
    image="registry.example/app:1",
    ports=[8000],
    workload_profile=small,
    vgpu=tfi.VGPU(tflops_request=10, vram_request="4Gi"),
)

# {notes[4]}
"""
    )


FILLED_IN = """\
  progressDeadlineSeconds: 600
  revisionHistoryLimit: 10
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
"""
FILLED_INTO_PODS = """\
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
"""
FILLED_INTO_CONTAINERS = (
    "imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, "
)


def filled_in(text: str) -> str:
    """The manifest with what a server would fill in."""
    container = "- {name: chat, "
    return (
        text.replace("  replicas: 2\n", "  replicas: 2\n" + FILLED_IN)
        .replace("    spec:\n      containers:\n", "    spec:\n" + FILLED_INTO_PODS + "      containers:\n")
        .replace(container, container + FILLED_INTO_CONTAINERS)
    )


def test_what_an_api_server_filled_in_is_left_out() -> None:
    """tests/cluster/test_import_from_a_server.py has the servers' own words for every kind."""
    served = filled_in(DEPLOYMENT)
    assert "IfNotPresent" in served
    assert "maxSurge" in served
    assert "default-scheduler" in served
    result = run("import", "-f", "-", stdin=served)
    assert "12 values that the API server fills in are left out" in result.stderr
    lines = [line for line in result.stdout.splitlines() if not line.startswith("#")]
    assert lines == [line for line in run("import", "-f", "-", stdin=DEPLOYMENT).stdout.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("default", "chosen"),
    [
        ("maxSurge: 25%", "maxSurge: 1"), ("revisionHistoryLimit: 10", "revisionHistoryLimit: 2"),
        ("dnsPolicy: ClusterFirst", "dnsPolicy: Default"), ("imagePullPolicy: IfNotPresent", "imagePullPolicy: Always"),
        ("securityContext: {}", "securityContext: {runAsUser: 7}"),
    ],
)  # fmt: skip
def test_what_somebody_chose_is_kept(default: str, chosen: str) -> None:
    result = run("import", "-f", "-", stdin=filled_in(DEPLOYMENT).replace(default, chosen))
    value = chosen.partition(": ")[2].removeprefix("{runAsUser: ").removesuffix("}")
    kept = [line for line in result.stdout.splitlines() if not line.startswith("#") and value in line]
    assert kept, result.stdout


def test_what_was_never_on_a_server_is_kept_as_it_is_written() -> None:
    written = filled_in(DEPLOYMENT).replace('  resourceVersion: "7"\n', "")
    result = run("import", "-f", "-", stdin=written)
    assert "fills in" not in result.stderr
    assert "default-scheduler" in result.stdout
    assert "progress_deadline_seconds=600" in result.stdout


def test_json_has_the_program_and_the_notes() -> None:
    data = json.loads(run("import", "-f", "-", "-o", "json", stdin=DEPLOYMENT).stdout)
    assert "tfi.AnnotatedDeployment(" in data["program"]
    assert len(data["notes"]) == 5


def test_pods_that_are_not_enabled_are_left_out() -> None:
    text = DEPLOYMENT.replace('"true"', '"false"').replace("        tensor-fusion.ai/container-gpus: '{}'\n", "")
    result = run("import", "-f", "-", stdin=text)
    assert result.exit_code == 0
    assert "AnnotatedDeployment" not in result.stdout
    assert "its pods are not enabled" in result.stderr


def test_what_is_wrong_in_the_manifest_is_told_instead() -> None:
    result = run("import", "-f", CASES / "blank-values.yaml")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{PREFIX}gpu-indices" in result.stderr
    assert f"{PREFIX}gpu-model" in result.stderr


def test_amounts_may_come_from_a_quota_of_the_cluster() -> None:
    text = DEPLOYMENT.replace('        tensor-fusion.ai/tflops-request: "10"\n', "").replace(
        "        tensor-fusion.ai/vram-request: 4Gi\n", ""
    )
    assert run("import", "-f", "-", stdin=text.replace("        tensor-fusion.ai/workload-profile: small\n", "")).exit_code == 0


def test_the_published_deployment_needs_its_container() -> None:
    result = run("import", "-f", FIXTURES / "published-deployment.yaml")
    assert result.exit_code == 1
    assert "no container" in result.stderr


@pytest.mark.parametrize("key", BY_KEY)
def test_every_annotation_becomes_its_argument(key: str) -> None:
    values = {
        "inject-container": "chat", "container-gpu-count": '{"chat":1}', "gpu-model": "A100", "workload-profile": "p",
        "gpupool": "p", "workload": "w",
        "qos": "low", "isolation": "soft", "vendor": "AMD", "autoscale-target": "all", "gpu-indices": "0",
        "disable-features": "gpu-opt", "eviction-protection": "30m", "gang-timeout": "30m", "partition-template": "1g.10gb",
        "vram-request": "4Gi", "vram-limit": "4Gi", "gang-min-members": "2",
    }  # fmt: skip
    flags = ("is-local-gpu", "dedicated-gpu", "autoscale", "standalone-worker-mode")
    extra = {"partition-template": {"isolation": "partitioned"}, "dedicated-gpu": {"gpu-model": "A100"}}.get(key, {})
    if key == "container-gpu-count":
        extra = {"is-local-gpu": "true"}
    if key not in ("dedicated-gpu", "partition-template"):
        extra |= {"vram-request": "1Gi"}
    if key in ("vram-limit", "vram-request"):
        extra.pop("vram-request", None)
    given_values = {**extra, key: values.get(key, "true" if key in flags else "1")}
    annotations = "\n".join(f"        {PREFIX}{name}: '{value}'" for name, value in given_values.items())
    head, tail = DEPLOYMENT.split("      annotations:\n")[0], DEPLOYMENT[DEPLOYMENT.index("    spec:\n      containers") :]
    result = run("import", "-f", "-", stdin=f"{head}      annotations:\n{annotations}\n{tail}")
    assert result.exit_code == 0, result.stderr
    assert f"{BY_KEY[key].argument}=" in result.stdout
