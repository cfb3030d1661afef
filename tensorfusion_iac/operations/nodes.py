"""What each node can do, and what keeps it from taking pods: its agent, its devices, its cards, and its pool. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.names import AGENT_LEASE_NAMESPACE, AGENT_LEASE_PREFIX
from tensorfusion_iac.api.pod import NATIVE_GPU
from tensorfusion_iac.api.pools import may_use
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.kube.resource import GPU_NODES, GPU_POOLS, GPUS, LEASES, NAMESPACES, NODES
from tensorfusion_iac.operations.finding import Finding
from tensorfusion_iac.operations.observed import Object, Observed, age_s, at, condition, is_fresh, name_of, namespace_of
from tensorfusion_iac.planning.membership import pool_of

_NONE = "-"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node can do. Texts as people read them; where its cards differ, all values."""

    name: str
    pool: str
    agent: str
    heartbeat_s: float | None
    injection: str
    cgroups: str
    cards: int
    driver: str
    memory_limits: str
    compute_limits: str
    mps: str
    mig: str
    used_by: str

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "node": self.name, "pool": self.pool, "agentVersion": self.agent, "heartbeatSeconds": self.heartbeat_s,
            "injectionTier": self.injection, "cgroups": self.cgroups, "cards": self.cards, "driver": self.driver,
            "memoryLimits": self.memory_limits, "computeLimits": self.compute_limits, "mps": self.mps, "mig": self.mig,
            "usedBy": self.used_by,
        }  # fmt: skip


def reports(seen: Observed) -> list[NodeReport]:
    """The nodes that have GPUs, by name."""
    pools, fleet = _pools(seen), _fleet(seen)
    found = []
    for name in fleet.names:
        gpu_node, cards = fleet.gpu_nodes.get(name), fleet.cards.get(name, [])
        capabilities = [at(card, "status", "capabilities") or {} for card in cards]
        lease = fleet.leases.get(name)
        age = None if lease is None else age_s(lease, seen.now)
        found.append(
            NodeReport(
                name=name,
                pool=fleet.pool_of(name, pools) or _NONE,
                agent=str(at(gpu_node, "status", "agentVersion") or _NONE),
                heartbeat_s=None if age is None else round(age, 1),
                injection=str(at(gpu_node, "status", "injectionTier") or _NONE),
                cgroups=str(at(gpu_node, "status", "cgroups") or _NONE),
                cards=len(cards),
                driver=_values(capabilities, "driverVersion"),
                memory_limits=_values(capabilities, "vramLimit"),
                compute_limits=_values(capabilities, "computeLimit"),
                mps=_values(capabilities, "mps"),
                mig=_values(capabilities, "mig"),
                used_by=_values([at(card, "status") or {} for card in cards], "usedBy"),
            )
        )
    return found


def _values(rows: Sequence[Mapping[str, Any]], member: str) -> str:
    words = {True: "yes", False: "no"}
    found = {words.get(row[member], str(row[member])) for row in rows if row.get(member) not in (None, "")}
    return ", ".join(sorted(found)) or _NONE


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The objects about nodes by the node's name. `names`: nodes that have GPUs, in order."""

    names: Sequence[str]
    nodes: Mapping[str, Object]
    gpu_nodes: Mapping[str, Object]
    leases: Mapping[str, Object]
    cards: Mapping[str, list[Object]]

    def pool_of(self, node: str, pools: Mapping[str, GPUPool]) -> str | None:
        labels = at(self.nodes.get(node), "metadata", "labels") or {}
        return pool_of(node, labels, at(self.gpu_nodes.get(node), "spec", "poolName"), pools)


def _fleet(seen: Observed) -> _Fleet:
    cards: dict[str, list[Object]] = {}
    for card in seen.of(GPUS):
        if node := at(card, "status", "nodeName"):
            cards.setdefault(str(node), []).append(card)
    gpu_nodes = {name_of(item): item for item in seen.of(GPU_NODES)}
    leases = {
        name_of(item).removeprefix(AGENT_LEASE_PREFIX): item
        for item in seen.of(LEASES)
        if namespace_of(item) == AGENT_LEASE_NAMESPACE and name_of(item).startswith(AGENT_LEASE_PREFIX)
    }
    nodes = {name_of(item): item for item in seen.of(NODES)}
    return _Fleet(sorted({*cards, *gpu_nodes}), nodes, gpu_nodes, leases, cards)


def _pools(seen: Observed) -> dict[str, GPUPool]:
    found = {}
    for item in seen.of(GPU_POOLS):
        try:
            found[name_of(item)] = GPUPool.model_validate(item)
        except ValidationError:
            continue  # told of by `pools`
    return found


def pools(seen: Observed) -> Iterator[Finding]:
    """Pools that cannot be read, that have no node, or that no namespace may use; and what the controller says of them."""
    readable, fleet = _pools(seen), _fleet(seen)
    homes = {fleet.pool_of(node, readable) for node in fleet.names}
    if not seen.of(GPU_POOLS) and GPU_POOLS not in seen.absent | set(seen.unreadable):
        yield Finding("GPUPool", "there is none: no pod can be given GPUs", "declare a GPUPool")
    for item in seen.of(GPU_POOLS):
        name, subject = name_of(item), f"GPUPool {name_of(item)}"
        if name not in readable:
            yield Finding(subject, "it cannot be read", f"kubectl get gpupool {name} -o yaml | tensorfusion validate -")
            continue
        conflicts = [
            one
            for one in at(item, "status", "conditions") or ()
            if one.get("type") in ("DefaultConflict", "NodeConflict") and one.get("status") == "True"
        ]
        if name not in homes and not any(one["type"] == "NodeConflict" for one in conflicts):  # which says where its nodes are
            selected = [node for node in fleet.nodes if fleet.pool_of(node, readable) == name]
            yield Finding(subject, *_empty_pool(selected, fleet.names))
        if NAMESPACES in seen.objects and not any(may_use(readable[name], _namespace_labels(one)) for one in seen.of(NAMESPACES)):
            yield Finding(subject, "its namespaceSelector selects no namespace", "correct it, or label the namespaces")
        for one in conflicts:
            yield Finding(subject, str(one.get("message")), "correct the pools' selectors or their mark as default")


def _empty_pool(selected: Sequence[str], gpu_nodes: Sequence[str]) -> tuple[str, str]:
    if not selected:
        others = f"; nodes with GPUs: {', '.join(gpu_nodes[:5])}" if gpu_nodes else ""
        return f"its node selector selects no node{others}", "correct nodeManagerConfig.nodeSelector, or label the nodes"
    some = ", ".join(selected[:5])
    return f"it selects {some}, but no agent reports GPUs there", "see whether the agent's DaemonSet has pods on those nodes"


def _namespace_labels(namespace: Object) -> Mapping[str, str]:
    return at(namespace, "metadata", "labels") or {}


def agents(seen: Observed) -> Iterator[Finding]:
    """Nodes whose agent is silent, or that have no working way for devices into containers."""
    fleet = _fleet(seen)
    for name in fleet.names:
        subject = f"node {name}"
        node, gpu_node = fleet.nodes.get(name), fleet.gpu_nodes.get(name)
        if node is None and NODES not in seen.unreadable:
            yield Finding(subject, "its GPUs are told of, but there is no such node", "the controller removes them soon", name)
            continue
        lease = fleet.leases.get(name)
        if LEASES not in seen.unreadable and not is_fresh(lease, seen.now):
            age = None if lease is None else age_s(lease, seen.now)
            problem = "its agent never reported" if age is None else f"its agent has not reported for {age:.0f} s"
            yield Finding(subject, f"{problem}: it takes no pods", "see the agent's pod on the node, and its log", name)
        tier = at(gpu_node, "status", "injectionTier")
        if gpu_node is not None and tier in (None, "", "none"):
            advice = at(gpu_node, "status", "message") or "see the agent's log"
            yield Finding(subject, "devices cannot reach containers there: it takes no pods", str(advice), name)
        if at(node, "spec", "unschedulable"):
            yield Finding(subject, "it is cordoned: it takes no pods", f"kubectl uncordon {name}, when it is fit", name)
        elif node is not None and at(condition(node, "Ready"), "status") != "True":
            yield Finding(subject, "it is not Ready: it takes no pods", f"kubectl describe node {name}", name)


def cards(seen: Observed) -> Iterator[Finding]:
    """Cards that are sick, that others use, or whose driver cannot hold limits."""
    fleet = _fleet(seen)
    for name in fleet.names:
        plugin = str(at(fleet.nodes.get(name), "status", "allocatable", NATIVE_GPU) or "0")
        if plugin not in ("0", ""):
            problem = f"NVIDIA's device plugin offers {plugin} {NATIVE_GPU} there: one card could be given away twice"
            yield Finding(f"node {name}", problem, "exclude the node from the device plugin's DaemonSet", name)
        for card in fleet.cards.get(name, ()):
            status = at(card, "status") or {}
            subject = f"GPU {name_of(card)} (node {name}, index {status.get('index')})"
            if status.get("health") not in (None, "Healthy"):
                problem = f"it is {status['health']}: {status.get('message') or 'no reason given'}"
                yield Finding(subject, problem, "drain the node and reset the card; the agent sees when it is well", name)
            if status.get("usedBy") == "foreign":
                yield Finding(subject, "a process that is no pod's is on it: it takes no pods", "end that process", name)
            if at(status, "capabilities", "computeLimit") == "none":
                yield Finding(subject, "no compute limit can be held there: the node has no freezer", "see docs/support.md", name)
