"""Preemption for GPUs, our own: kube-scheduler's dry run knows no GPU, so a shortage of GPUs alone never reaches it.

When a pod fits nowhere, victims are planned on one node that kube-scheduler found fit otherwise. The node is kept for the
preemptor while they are evicted through the Eviction API, which minds disruption budgets; when they are gone the preemptor
gets a hold there at once, and is woken. The plan ends when the pod is bound, is gone, or time is over (ARCHITECTURE).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

from tensorfusion_iac.api.pools import selects
from tensorfusion_iac.api.resources.selectors import LabelSelector
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.informer import Change, ChangeType
from tensorfusion_iac.kube.resource import Resource
from tensorfusion_iac.planning.explain import Explanation
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.victims import Candidate, Plan, enough, plan
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState
from tensorfusion_iac.scheduling.wire import PreemptRequest

log = logging.getLogger(__name__)

PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PLAN_S = 120.0
"""How long a node is kept for a preemptor: victims may take their grace period to end."""
PAUSE_S, AGAIN_S = 5.0, 15.0
"""Until another plan for a pod: after one that came to nothing, and where there was none (protections end, others come)."""
UNSHOWN_S = 120.0
"""How long a refused pod is remembered that the watch has not shown."""
TURN_S = 0.02
"""How long planning may hold up other decisions."""
_RETRY_S = 2.0


@dataclass(slots=True)
class Under:
    """A plan under way: who it is for, what it is, and when it ends."""

    pod: GpuPod
    nodes: Sequence[str]
    plan: Plan
    until: float


@dataclass(slots=True)
class Wanted:
    """A refused pod that may preempt: the nodes that kube-scheduler found fit otherwise, and when it is planned for."""

    pod: GpuPod
    nodes: Sequence[str]
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
    _budgets: dict[tuple[str, str], Object] = field(default_factory=dict)
    _wanted: dict[str, Wanted] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self) -> None:
        """Begin to listen."""
        self.decider.on_refused(self._refused)
        self.decider.on_placed(self._placed)
        self.state.on_pod(self._pod_changed)

    def budget_changed(self, change: Change) -> None:
        """A PodDisruptionBudget was added, changed or deleted."""
        before = self._budgets.pop(change.key, None)
        if change.type is not ChangeType.DELETED:
            self._budgets[change.key] = change.object
            if before is None or (
                before.get("spec") == change.object.get("spec") and _allowed(change.object) <= _allowed(before)
            ):
                return  # it shields no less than it did
        self._plan_anew()

    def judge(self, pod: GpuPod, request: PreemptRequest) -> dict[str, tuple[list[str], int]]:
        """Of kube-scheduler's candidates, those where the GPUs suffice once its victims are gone, with GPU victims added.

        A node goes too if one of kube-scheduler's victims is under `eviction-protection`, of which it knows nothing.
        """
        kept: dict[str, tuple[list[str], int]] = {}
        able, asker = self._candidates(pod), self.decider.asker(pod)
        for node, (victims, violations) in request.victims.items():
            ours = [self.state.pods[uid] for uid in victims if uid in self.state.pods]
            if node not in self.state.inventory.row_of or any(self._is_protected(victim) for victim in ours):
                continue
            others = [one for one in able if one.reservation.node == node and one.reservation.uid not in victims]
            extra = enough(self.state.inventory, pod.claim, asker, node, others, gone=victims)
            if extra is not None:
                kept[node] = [*victims, *(one.reservation.uid for one in extra)], violations
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
            self._end_plans()
            if not self.may_write():
                self._wanted.clear()
                continue
            self.make_plans()
            for under in list(self.plans.values()):
                await self._evict(under)

    def make_plans(self) -> None:
        """Plan for the refused pods that are due, the highest priority first; what takes too long goes on at the next turn."""
        now, hopeless = self.state.clock(), set[object]()
        for wanted in sorted(self._wanted.values(), key=lambda one: -one.pod.priority):
            uid, pod = wanted.pod.uid, self.state.pods.get(wanted.pod.uid)
            if uid in self.state.gone or (pod is not None and pod.node) or now - wanted.due > UNSHOWN_S:
                del self._wanted[uid]
            elif self.state.clock() - now > TURN_S:
                self._work.set()
            elif pod is not None and wanted.due <= now:
                asks = pod.claim, pod.namespace, pod.priority, len(wanted.nodes)
                if asks not in hopeless and self._begin(pod, wanted.nodes):
                    del self._wanted[uid]
                else:
                    hopeless.add(asks)  # nothing has changed since, so its equals need not be tried
                    wanted.due = now + AGAIN_S

    def _refused(self, pod: GpuPod, explanation: Explanation, candidates: Sequence[str]) -> None:
        if not pod.preempts or pod.uid in self.plans:
            return
        known = self._wanted.get(pod.uid)
        self._wanted[pod.uid] = Wanted(pod, candidates, known.due if known else self.state.clock())
        self._work.set()

    def _placed(self, uid: str) -> None:
        self._wanted.pop(uid, None)

    def _pod_changed(self, pod: GpuPod) -> None:
        if pod.uid in self.plans and pod.node:
            self._end(pod.uid)
        elif pod.uid in self._wanted:  # it may have been refused before the watch showed it
            self._work.set()

    def _begin(self, pod: GpuPod, nodes: Sequence[str]) -> bool:
        """Begin a plan for a pod, if there is one."""
        kept = {under.plan.node for under in self.plans.values()}
        found = plan(
            self.state.inventory, pod.claim, self.decider.asker(pod), [node for node in nodes if node not in kept],
            self._candidates(pod),
        )  # fmt: skip
        if found is None:
            return False
        log.info("pod %s/%s: evicting %s from %s", *pod.key, ", ".join(found.victims), found.node)
        self.plans[pod.uid] = Under(pod, nodes, found, self.state.clock() + PLAN_S)
        self.state.inventory.nominate(found.node, pod.priority)
        self.decider.nominations = self.nodes()
        return True

    async def _evict(self, under: Under) -> None:
        for uid in under.plan.victims:
            victim = self.state.pods.get(uid)
            if victim is None or victim.terminating:
                continue
            resource = Resource("", "v1", f"pods/{victim.name}/eviction", "Eviction")
            body = {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": victim.name, "namespace": victim.namespace},
                "deleteOptions": {"preconditions": {"uid": uid}},
            }  # fmt: skip
            try:
                await self.client.create(resource, body, victim.namespace)
                self.metrics.events.labels("evicted").inc()
            except ApiError as error:
                if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                    log.info("pod %s/%s may not be evicted now: %s", *victim.key, error)
                    self._end(under.pod.uid)
                    return
                if not error.not_found and not error.conflict:
                    log.warning("pod %s/%s: %s", *victim.key, error)
            except KubeError as error:
                log.warning("pod %s/%s: %s", *victim.key, error)

    def _end_plans(self) -> None:
        for uid, under in list(self.plans.items()):
            pod = self.state.pods.get(uid)
            if pod is None or pod.node or under.until <= self.state.clock():
                self._end(uid)

    def _end(self, uid: str) -> None:
        under = self.plans.pop(uid, None)
        if under is None:
            return
        self.state.inventory.nominate(under.plan.node, None)
        self.decider.nominations = self.nodes()
        if uid in self.state.pods and not self.state.pods[uid].node:
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
        for entry in self.state.ledger:
            held, victim = entry.reservation, self.state.pods.get(entry.reservation.uid)
            if held.priority >= pod.priority or entry.state is State.HELD:
                continue
            if victim is not None and not victim.terminating and not self._is_protected(victim):
                able.append((Candidate(held, victim.started.timestamp() if victim.started else 0.0), victim))
        able.sort(key=lambda one: (one[0].reservation.priority, -one[0].started_s))
        spent: dict[tuple[str, str], int] = {}
        return [candidate for candidate, victim in able if self._budget_allows(victim, spent)]

    @staticmethod
    def _is_protected(pod: GpuPod) -> bool:
        protection = pod.worker.eviction_protection
        if protection is None:
            return False
        return pod.started is None or datetime.now(UTC) - pod.started < protection

    def _budget_allows(self, pod: GpuPod, spent: dict[tuple[str, str], int]) -> bool:
        """Whether every disruption budget of the pod allows one more; the Eviction API has the last word."""
        for key, budget in self._budgets.items():
            if key[0] != pod.namespace:
                continue
            selector = (budget.get("spec") or {}).get("selector")
            if selector is None or not selects(LabelSelector.model_validate(selector), pod.labels):
                continue
            if spent.get(key, 0) >= _allowed(budget):
                return False
            spent[key] = spent.get(key, 0) + 1
        return True


def _allowed(budget: Object) -> int:
    """How many pods a disruption budget lets go now."""
    return int((budget.get("status") or {}).get("disruptionsAllowed") or 0)
