"""What `tensorfusion report` says of a change is what the cluster then does: random changes, each in a pool of its own.

All changes are made at once on one control plane with kube-scheduler and our extender; Deployments are rolled by the real
controller. Pods are written as the webhook would, by its own function.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from gpu_plane import GpuPlane, gpu_plane

from tensorfusion_iac.admission import AdmissionFacts, apply, mutate
from tensorfusion_iac.api import ENABLED_LABEL, PREFIX, GPUPool, Namespace, Owner
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.pod_templates import pod_from
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import GPU_POOLS, NAMESPACES, PODS, WORKLOAD_PROFILES, Resource
from tensorfusion_iac.local.state import NodeGroup
from tensorfusion_iac.report import Cluster, report_of
from tensorfusion_iac.report.fit import Fit, Verdict
from tensorfusion_iac.report.preview import Change, Manifest, Preview
from tensorfusion_iac.scheduling.snapshot import KINDS, collect

pytestmark = pytest.mark.cluster

CHANGES = 51
LEAST_JUDGED, MOST_BY_CHANCE = 50, 5
SEED = 20261130
MODEL, CARDS = "A100_SXM_80G", 2
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
QUIET_S = 12.0
"""kube-scheduler lets a refused pod rest for up to 10 s, and one that evicts others takes its turn then."""
PATIENCE_S = 150.0

Object = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """A Deployment as a user writes it."""

    name: str
    replicas: int
    amounts: tuple[tuple[str, str], ...]
    qos: str = "medium"
    gpus: int = 1
    strategy: tuple[tuple[str, Any], ...] = ()

    def manifest(self, place: str) -> Object:
        marks = {**dict(self.amounts), "qos": self.qos, "gpu-count": str(self.gpus), "gpupool": place, "is-local-gpu": "true"}
        template = {
            "metadata": {
                "labels": {"app": self.name, ENABLED_LABEL: "true"},
                "annotations": {f"{PREFIX}{key}": text for key, text in marks.items()},
            },
            "spec": {"containers": [{"name": "app", "image": "app:1"}], "terminationGracePeriodSeconds": 0},
        }
        spec = {"replicas": self.replicas, "selector": {"matchLabels": {"app": self.name}}, "template": template}
        strategy = dict(self.strategy)
        if strategy:
            spec["strategy"] = (
                {"type": "Recreate"} if strategy.get("type") else {"type": "RollingUpdate", "rollingUpdate": strategy}
            )
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name, "namespace": place}, "spec": spec}


@dataclass(frozen=True)
class Case:
    """A change in a pool, a namespace and nodes of its own."""

    place: str
    nodes: tuple[str, ...]
    before: tuple[Spec, ...]
    after: tuple[Spec, ...]

    @property
    def changed(self) -> list[Spec]:
        """What is there afterwards and was not so before."""
        return [spec for spec in self.after if spec not in self.before]

    @property
    def gone(self) -> list[Spec]:
        return [spec for spec in self.before if spec.name not in {other.name for other in self.after}]

    def preview(self) -> Preview:
        """The change as a preview tells it."""
        before, after = ({spec.name: spec for spec in side} for side in (self.before, self.after))

        def manifest(spec: Spec | None) -> Manifest | None:
            return None if spec is None else Manifest(spec.manifest(self.place), ())

        names = dict.fromkeys([*before, *after])
        return Preview(
            "test", "dev", tuple(Change(name, manifest(before.get(name)), manifest(after.get(name))) for name in names)
        )


def pool_object(case: Case) -> Object:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(case.nodes)}]}]
    spec = {"defaultUsingLocalGPU": True, "nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": terms}}}
    return {"apiVersion": API_VERSION, "kind": "GPUPool", "metadata": {"name": case.place}, "spec": spec}


def admitted(spec: Spec, case: Case) -> Object:
    """The Deployment, its template as the webhook would make its pods."""
    manifest = spec.manifest(case.place)
    pod = pod_from("Deployment", spec.name, case.place, manifest["spec"]["template"])
    pools = {case.place: GPUPool.model_validate(pool_object(case))}
    facts = AdmissionFacts(Namespace(case.place, {}), Owner("Deployment", spec.name))
    decision = mutate(pod, facts, profile=None, pools=pools, quota=None)
    assert decision.allowed, decision.message
    made = apply(pod, decision.patch)
    metadata = {key: made["metadata"][key] for key in ("labels", "annotations")}
    manifest["spec"]["template"] = {"metadata": metadata, "spec": made["spec"]}
    return manifest


# The changes.


def some_amounts(rng: random.Random) -> tuple[tuple[str, str], ...]:
    vram = ("vram-request", f"{rng.choice((10, 20, 30, 40, 60))}Gi")
    tflops, percent = str(rng.choice((50, 100, 150, 250))), str(rng.choice((25, 50, 75)))
    compute = rng.choice((("tflops-request", tflops), ("compute-percent-request", percent), None))
    return (vram,) if compute is None else (vram, compute)


def some_strategy(rng: random.Random) -> tuple[tuple[str, Any], ...]:
    careful, halves = (("maxSurge", 0), ("maxUnavailable", 1)), (("maxSurge", 2), ("maxUnavailable", "50%"))
    return rng.choice(((), (), (), (("type", "Recreate"),), careful, halves, (("maxSurge", "100%"), ("maxUnavailable", 0))))


def some_spec(rng: random.Random, name: str) -> Spec:
    qos = rng.choice(("low", "medium", "medium", "high"))
    return Spec(name, rng.randint(1, 4), some_amounts(rng), qos, rng.choice((1, 1, 1, 2)), some_strategy(rng))


def changed(rng: random.Random, before: tuple[Spec, ...]) -> tuple[Spec, ...]:
    first, rest = before[0], before[1:]
    kind = rng.choice(("create", "amounts", "amounts", "amounts", "scale", "qos", "gpus", "both", "instead", "delete"))
    if kind == "create":
        return (*before, some_spec(rng, "fresh"))
    if kind == "amounts":
        return (replace(first, amounts=some_amounts(rng)), *rest)
    if kind == "scale":
        return (replace(first, replicas=rng.randint(0, 9)), *rest)
    if kind == "qos":
        return (replace(first, qos="critical", replicas=first.replicas + 1), *rest)
    if kind == "gpus":
        return (replace(first, gpus=3 - first.gpus), *rest)
    if kind == "both":
        return (replace(first, amounts=some_amounts(rng), replicas=rng.randint(1, 5)), *rest)
    if kind == "instead":
        return (*rest, replace(some_spec(rng, "fresh"), qos="low"))
    return rest


def cases(count: int, seed: int) -> Iterator[Case]:
    rng, node = random.Random(seed), 0
    for at in range(count):
        size = rng.choice((1, 1, 1, 2))
        nodes = tuple(f"{MODEL.lower().replace('_', '-')}-{node + offset}" for offset in range(size))
        node += size
        before: tuple[Spec, ...] = ()
        while not before or not surely_fits(nodes, before):
            before = tuple(some_spec(rng, f"w{which}") for which in range(rng.randint(1, 3)))
        yield Case(f"case-{at:02}", nodes, before, changed(rng, before))


def known_cases(first: int) -> Iterator[Case]:
    """One of each end, whatever the random ones are: a deadlock, a preemption, and one that waits."""

    def nodes(at: int) -> tuple[str, ...]:
        return (f"{MODEL.lower().replace('_', '-')}-{first + at}",)

    large, mid = Spec("w0", 2, (("vram-request", "60Gi"),), "low"), (("vram-request", "50Gi"),)
    yield Case("case-deadlock", nodes(0), (large,), (replace(large, amounts=mid),))
    yield Case("case-preempts", nodes(1), (large,), (large, Spec("fresh", 1, mid, "critical")))
    yield Case("case-waits", nodes(2), (large,), (large, Spec("fresh", 1, mid, "low")))


def surely_fits(nodes: tuple[str, ...], specs: tuple[Spec, ...]) -> bool:
    """Whether these find their places on empty nodes, in whatever order they start."""
    for order in (specs, specs[::-1]):
        renamed = tuple(replace(spec, name=f"{at}-{spec.name}") for at, spec in enumerate(order))
        case = Case("p", nodes, (), renamed)
        found = report_of(case.preview(), Cluster((pool_object(case), *node_objects(nodes)), agents_live=True)).fit
        if found is None or found.verdict is not Verdict.FITS:
            return False
    return True


def node_objects(nodes: tuple[str, ...]) -> Iterator[Object]:
    for name in nodes:
        yield {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        yield {"kind": "GPUNode", "metadata": {"name": name}, "status": {"injectionTier": "env"}}
        for index in range(CARDS):
            yield {"kind": "GPU", "metadata": {"name": f"{name}-{index}"}, "status": {
                "uuid": f"{name}-{index}", "nodeName": name, "model": MODEL, "vendor": "NVIDIA", "index": index,
                "capacity": {"tflops": "312", "vram": "80Gi"},
            }}  # fmt: skip


# The cluster.


@pytest.fixture(scope="module")
def everything() -> tuple[Case, ...]:
    """All changes. Made here and not on import, since trying what fits takes its time."""
    found = tuple(cases(CHANGES, SEED))
    return (*found, *known_cases(sum(len(case.nodes) for case in found)))


@pytest.fixture(scope="module")
def plane(everything: tuple[Case, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    group = NodeGroup(model=MODEL, gpus_per_node=CARDS, nodes=sum(len(case.nodes) for case in everything))
    with gpu_plane(tmp_path_factory.mktemp("verdicts") / "plane", (group,), os.getpid()) as made:
        yield made


def applied(plane: GpuPlane, resource: Resource, objects: Iterable[Object]) -> None:
    """Apply them all, several at a time, in their order."""

    async def put(client: Client) -> None:
        turns = asyncio.Semaphore(4)

        async def one(item: Object) -> None:
            async with turns:
                await client.apply(resource, item, "test")

        await asyncio.gather(*map(one, objects))

    plane.ask(put)


def deleted(plane: GpuPlane, names: Iterable[tuple[str, str]]) -> None:
    async def remove(client: Client) -> None:
        for namespace, name in names:
            await client.delete(DEPLOYMENTS, name, namespace)

    plane.ask(remove)


def settled(plane: GpuPlane) -> tuple[dict[tuple[str, str], Object], list[Object]]:
    """Deployments and GPU pods, once nothing has moved for a while."""

    async def look(client: Client) -> tuple[list[Object], list[Object]]:
        return (await client.list(DEPLOYMENTS)).items, (await client.list(PODS)).items

    deadline, seen, since = time.monotonic() + PATIENCE_S, "", time.monotonic()
    while time.monotonic() < deadline:
        deployments, pods = plane.ask(look)
        state = json.dumps([[item["metadata"]["uid"], item["spec"].get("nodeName"), item["status"].get("phase")] for item in pods]
                           + [[item["metadata"]["uid"], item["metadata"]["generation"], item["status"].get("observedGeneration")]
                              for item in deployments])  # fmt: skip
        if state != seen:
            seen, since = state, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            by_name = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in deployments}
            return by_name, [pod for pod in pods if pod["metadata"]["namespace"].startswith("case-")]
        time.sleep(1)
    raise AssertionError(f"the cluster did not come to rest within {PATIENCE_S} s")


def is_complete(deployment: Object) -> bool:
    """Whether the rollout is at its end: every pod is new and available, and no old one is left."""
    spec, status = deployment["spec"], deployment.get("status", {})
    counts = [status.get(key, 0) for key in ("updatedReplicas", "availableReplicas", "replicas")]
    return counts == [spec["replicas"]] * 3 and status.get("observedGeneration") == deployment["metadata"]["generation"]


def part(case: Case, objects: list[Object]) -> Cluster:
    """What a dump of the case's nodes, pool and namespace holds."""

    def belongs(item: Object) -> bool:
        kind, name = item["kind"], item["metadata"]["name"]
        if kind in ("Node", "GPUNode"):
            return name in case.nodes
        if kind == "GPU":
            return item["status"]["nodeName"] in case.nodes
        if kind == "GPUPool":
            return bool(name == case.place)
        return item["metadata"].get("namespace") == case.place or (kind == "Namespace" and name == case.place)

    return Cluster(tuple(filter(belongs, objects)), agents_live=True)


def waiting(pods: list[Object], place: str) -> int:
    return sum(1 for pod in pods if pod["metadata"]["namespace"] == place and not pod["spec"].get("nodeName"))


def test_the_verdict_is_what_the_cluster_then_does(plane: GpuPlane, everything: tuple[Case, ...]) -> None:
    applied(
        plane, NAMESPACES, ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.place}} for case in everything)
    )
    applied(plane, GPU_POOLS, map(pool_object, everything))
    applied(plane, DEPLOYMENTS, (admitted(spec, case) for case in everything for spec in case.before))
    _, pods = settled(plane)
    judged = [case for case in everything if not waiting(pods, case.place)]
    assert len(judged) >= LEAST_JUDGED, "too many of the stacks did not fit before their change"

    kinds = (*KINDS, (WORKLOAD_PROFILES, ""), (NAMESPACES, ""))
    objects = plane.ask(lambda client: collect(client, kinds))
    said: dict[str, Fit] = {}
    for case in judged:
        fit = report_of(case.preview(), part(case, objects)).fit
        assert fit is not None
        said[case.place] = fit

    applied(plane, DEPLOYMENTS, (admitted(spec, case) for case in judged for spec in case.changed))
    deleted(plane, ((case.place, spec.name) for case in judged for spec in case.gone))
    deployments, pods = settled(plane)
    wrong = []
    for case in judged:
        fit = said[case.place]
        fits = all(is_complete(deployments[case.place, spec.name]) for spec in case.changed)
        if fit.verdict is not Verdict.MAY_WAIT and (fit.verdict is Verdict.FITS) is not fits:
            wrong.append(f"{case}\n  said {fit}\n  fits: {fits}, {waiting(pods, case.place)} wait")
    assert not wrong, f"{len(wrong)} of {len(judged)}:\n" + "\n".join(wrong)
    by_chance = [case.place for case in judged if said[case.place].verdict is Verdict.MAY_WAIT]
    assert len(by_chance) <= MOST_BY_CHANCE, by_chance
    known = {name: said[f"case-{name}"] for name in ("deadlock", "preempts", "waits")}
    assert [fit.verdict for fit in known.values()] == [Verdict.DEADLOCK, Verdict.FITS, Verdict.WAITS]
    assert known["preempts"].evicted
