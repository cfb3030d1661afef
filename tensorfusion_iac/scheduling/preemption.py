"""Preemption for GPUs, our own: kube-scheduler's dry run knows no GPU, so a shortage of GPUs alone never reaches it.

When a pod fits nowhere, victims are planned on one node that kube-scheduler found fit otherwise. The node is kept for the
preemptor while they are evicted through the Eviction API, which minds disruption budgets; when they are gone the preemptor
gets a hold there at once, and is woken. The plan ends when the pod is bound, is gone, or time is over (ARCHITECTURE).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.eviction import evict
from tensorfusion_iac.kube.informer import Change
from tensorfusion_iac.kube.resource import Resource
from tensorfusion_iac.planning.explain import Explanation
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.planning.victims import Candidate, Plan, enough, search
from tensorfusion_iac.scheduling.budgets import Budgets
from tensorfusion_iac.scheduling.decide import UNSHOWN_S, Decider, NodeSet
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState
from tensorfusion_iac.scheduling.wire import PreemptRequest

log = logging.getLogger(__name__)

PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PLAN_S = 120.0
"""How long a node is kept for a preemptor, and longer as long as victims take their grace period to end."""
PAUSE_S, AGAIN_S = 5.0, 15.0
"""Until another plan for a pod: after one that came to nothing, and where there was none (protections end, others come)."""
TURN_S = 0.02
"""How long planning may hold up other decisions."""
_RETRY_S = 2.0


@dataclass(slots=True)
class Under:
    """A plan under way: who it is for, what it is, and when it ends."""

    pod: GpuPod
    nodes: NodeSet
    plan: Plan
    until: float


@dataclass(slots=True)
class Wanted:
    """A refused pod that may preempt: the nodes that kube-scheduler found fit otherwise, and when it is planned for."""

    pod: GpuPod
    nodes: NodeSet
    due: float


@dataclass(slots=True)
class Preemption:
    """Plans and evicts, while `may_write`."""

    client: Client
    state: ClusterState
    decider: Decider
    metrics: Metrics
    may_write: Callable[[], bool]
    plans: dict[str, Under] = field(default_factory=dict)
    _budgets: Budgets = field(default_factory=Budgets)
    _wanted: dict[str, Wanted] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self) -> None:
        """Begin to listen."""
        self.decider.on_refused(self._refused)
        self.decider.on_placed(self._placed)
        self.state.on_pod(self._pod_changed)

    def budget_changed(self, change: Change) -> None:
        """A PodDisruptionBudget was added, changed or deleted."""
        if self._budgets.take(change):
            self._plan_anew()

    def judge(self, pod: GpuPod, request: PreemptRequest) -> dict[str, tuple[list[str], int]]:
        """Of kube-scheduler's candidates, those where the GPUs suffice once its victims are gone, with GPU victims added.

        A node goes too if one of kube-scheduler's victims is under `eviction-protection`, of which it knows nothing.
        """
        kept: dict[str, tuple[list[str], int]] = {}
        able, asker = self._candidates(pod), self.decider.asker(pod)
        for node, (victims, violations) in request.victims.items():
            ours = [self.state.pods[uid] for uid in victims if uid in self.state.pods]
            if node not in self.state.inventory.row_of or any(_is_protected(victim) for victim in ours):
                continue
            others = [one for one in able if one.reservation.node == node and one.uid not in victims]
            extra = enough(self.state.inventory, pod.claim, asker, node, others, gone=victims)
            if extra is not None:
                kept[node] = [*victims, *(one.uid for one in extra)], violations
        return kept

    def nodes(self) -> Mapping[str, str]:
        """By preemptor's UID, the node that is kept for it."""
        return {uid: under.plan.node for uid, under in self.plans.items()}

    async def run(self) -> None:
        """Plan, evict, and end plans, for ever."""
        while True:
            try:
                async with asyncio.timeout(_RETRY_S):
                    await self._work.wait()
            except TimeoutError:
                pass
            self._work.clear()
            self.end_plans()
            if not self.may_write():
                self._wanted.clear()
                continue
            await self.make_plans()
            for under in list(self.plans.values()):
                await self._evict(under)

    async def make_plans(self) -> None:
        """Plan for the refused pods that are due, the highest priority first. Other decisions go on in between."""
        hopeless = set[object]()
        for wanted in sorted(self._wanted.values(), key=lambda one: -one.pod.priority):
            now, uid, pod = self.state.clock(), wanted.pod.uid, self.state.pods.get(wanted.pod.uid)
            if self._wanted.get(uid) is not wanted:
                continue
            if uid in self.state.gone or (pod is not None and pod.settled) or now - wanted.due > UNSHOWN_S:
                del self._wanted[uid]
            elif pod is not None and wanted.due <= now:
                asks = pod.claim, pod.namespace, pod.priority, wanted.nodes
                wanted.due = now + AGAIN_S
                found = None if asks in hopeless else await self._search(pod, wanted.nodes)
                if found is None:
                    hopeless.add(asks)  # next to nothing has changed since, so its equals need not be tried
                elif self._wanted.get(uid) is wanted and self._still_enough(pod, found):
                    del self._wanted[uid]
                    self._begin(pod, wanted.nodes, found)
                else:
                    wanted.due = self.state.clock() + PAUSE_S

    def _refused(self, pod: GpuPod, explanation: Explanation, nodes: NodeSet) -> None:
        if not pod.preempts or pod.uid in self.plans:
            return
        known = self._wanted.setdefault(pod.uid, Wanted(pod, nodes, self.state.clock()))
        known.pod, known.nodes = pod, nodes
        self._work.set()

    def _placed(self, uid: str) -> None:
        self._wanted.pop(uid, None)

    def _pod_changed(self, pod: GpuPod) -> None:
        if pod.uid in self.plans and pod.settled:
            self._end(pod.uid)
        elif pod.uid in self._wanted:  # it may have been refused before the watch showed it
            self._work.set()

    async def _search(self, pod: GpuPod, nodes: NodeSet) -> Plan | None:
        """The best plan for a pod, if there is one. It may be of a moment ago: the search takes turns with all else."""
        kept = {under.plan.node for under in self.plans.values()}
        names = [node for node in self.decider.names_of(nodes) if node not in kept]
        able, asker = self._candidates(pod), self.decider.asker(pod)
        best, since = None, self.state.clock()
        for so_far in search(self.state.inventory, pod.claim, asker, names, able, self._ending()):
            best = so_far
            if self.state.clock() - since > TURN_S:
                await asyncio.sleep(0)
                since = self.state.clock()
        return best

    def _still_enough(self, pod: GpuPod, found: Plan) -> bool:
        """Whether the victims are still there to be evicted, and enough, and the node is nobody else's."""
        if any(under.plan.node == found.node for under in self.plans.values()) or found.node not in self.state.inventory.row_of:
            return False
        able = [one for one in self._candidates(pod) if one.uid in found.victims]
        going = [held.uid for held in self._ending() if held.node == found.node]
        asker = self.decider.asker(pod)
        return len(able) == len(found.victims) and (
            enough(self.state.inventory, pod.claim, asker, found.node, able, gone=going) is not None
        )

    def _begin(self, pod: GpuPod, nodes: NodeSet, found: Plan) -> None:
        log.info("pod %s/%s: %s is kept for it; evicted: %s", *pod.key, found.node, ", ".join(found.victims) or "nobody")
        self.plans[pod.uid] = Under(pod, nodes, found, self.state.clock() + PLAN_S)
        self.state.inventory.nominate(found.node, pod.priority)
        self.decider.nominations = self.nodes()

    async def _evict(self, under: Under) -> None:
        for uid in under.plan.victims:
            victim = self.state.pods.get(uid)
            if victim is None or victim.terminating:
                continue
            try:
                await evict(self.client, *victim.key, uid)
                self.metrics.events.labels("evicted").inc()
            except ApiError as error:
                if not error.not_found and not error.conflict:  # a budget, or a rule of the server's: it will not be soon
                    log.info("pod %s/%s may not be evicted now: %s", *victim.key, error)
                    self._end(under.pod.uid)
                    return
            except KubeError as error:
                log.warning("pod %s/%s: %s", *victim.key, error)

    def end_plans(self) -> None:
        """End the plans whose pod is bound, going or gone, or whose time is over."""
        now = self.state.clock()
        for uid, under in list(self.plans.items()):
            pod = self.state.pods.get(uid)
            if pod is None or pod.settled or (under.until <= now and not self._victims_end(under)):
                self._end(uid)

    def _victims_end(self, under: Under) -> bool:
        """Whether a victim still takes its grace period to end."""
        pods, now = self.state.pods, datetime.now(UTC)
        ends = [pod.ends for uid in under.plan.victims if (pod := pods.get(uid)) is not None and pod.ends is not None]
        return any(now < end + timedelta(seconds=PLAN_S) for end in ends)

    def _end(self, uid: str) -> None:
        under = self.plans.pop(uid, None)
        if under is None:
            return
        self.state.inventory.nominate(under.plan.node, None)
        self.decider.nominations = self.nodes()
        pod = self.state.pods.get(uid)
        if pod is not None and not pod.settled:
            self._wanted[uid] = Wanted(under.pod, under.nodes, self.state.clock() + PAUSE_S)
        self._plan_anew(but=uid)
        self.state.tell_room()

    def _plan_anew(self, but: str = "") -> None:
        """What stood in the way of others' plans is over: a node that was kept for one pod, or a disruption budget."""
        for uid, wanted in self._wanted.items():
            if uid != but:
                wanted.due = min(wanted.due, self.state.clock())
        self._work.set()

    def _candidates(self, pod: GpuPod) -> list[Candidate]:
        """Pods of lower priority that are bound and that nothing shields; the lowest and newest use up a budget first."""
        able = []
        for held, victim in self._bound():
            if held.priority < pod.priority and not victim.terminating and not _is_protected(victim):
                able.append((Candidate(held, victim.started.timestamp() if victim.started else 0.0), victim))
        able.sort(key=lambda one: (one[0].reservation.priority, -one[0].started_s))
        spared = self._budgets.spared(victim for _, victim in able)
        return [candidate for candidate, _ in able if candidate.uid not in spared]

    def _ending(self) -> list[Reservation]:
        """What pods hold that will have ended before a plan would have: they make room without being evicted."""
        soon = datetime.now(UTC) + timedelta(seconds=PLAN_S)
        return [held for held, pod in self._bound() if pod.ends is not None and pod.ends < soon]

    def _bound(self) -> Iterator[tuple[Reservation, GpuPod]]:
        for entry in self.state.ledger:
            pod = self.state.pods.get(entry.reservation.uid)
            if pod is not None and entry.state is not State.HELD:
                yield entry.reservation, pod


def _is_protected(pod: GpuPod) -> bool:
    protection = pod.worker.eviction_protection
    if protection is None:
        return False
    return pod.started is None or datetime.now(UTC) - pod.started < protection
