"""Whether a preview's workloads find their place: rehearsed on the cluster's own state by `planning.rehearse` (SPEC §7).

The state is read as the scheduler reads it. Judged are the workloads that change; what happens to others is told beside.
Where controllers have a choice of which pods go first, it is rehearsed several times, and an end that is chance is said to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import PRIORITY
from tensorfusion_iac.api.names import GANG_GATE
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.controller.profiles import as_edited
from tensorfusion_iac.planning.claim import claim_of
from tensorfusion_iac.planning.placing import Evicted, Gang, Pod, Waiting
from tensorfusion_iac.planning.rehearse import Outcome, Roll, rehearse
from tensorfusion_iac.planning.rolling import Bounds
from tensorfusion_iac.planning.shares import share_on
from tensorfusion_iac.planning.simulate import PoolUse, pool_use
from tensorfusion_iac.planning.units import tflops
from tensorfusion_iac.report.live import Live
from tensorfusion_iac.report.rolls import How, Way
from tensorfusion_iac.report.workloads import Workload
from tensorfusion_iac.report.world import World
from tensorfusion_iac.scheduling.pods import RESOLVED, GpuPod
from tensorfusion_iac.scheduling.state import ClusterState

TRIES = 8
"""How often it is rehearsed with other choices of the pods that go first."""

MOST_PODS = 20_000
"""Of one workload. More than that is rather a mistake than a plan, and would be rehearsed for minutes."""


class Verdict(StrEnum):
    """The end of it: everything that changes runs; by chance; some of it waits; a rolling update never ends; admission would
    refuse some of it; or that is not known.
    """

    FITS = "fits"
    MAY_WAIT = "may-wait"
    WAITS = "waits"
    DEADLOCK = "deadlock"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome. `waiting`: pods of changed workloads; `waiting_others`: pods of others that did not wait before.

    `held_up`: changed workloads that get their room only when others are deleted. `not_judged`: why the rest is open.
    `rehearsals`: how many there were, and how many of them `ended_well`; told is the likeliest, or of `MAY_WAIT`, a bad one.
    """

    verdict: Verdict
    waiting: tuple[Waiting, ...]
    waiting_others: tuple[Waiting, ...]
    waited_before: tuple[Waiting, ...]
    evicted: tuple[Evicted, ...]
    deadlocks: tuple[str, ...]
    held_up: tuple[str, ...]
    refused_resizes: tuple[tuple[str, str], ...]
    not_judged: tuple[str, ...]
    pools_before: tuple[PoolUse, ...]
    pools_after: tuple[PoolUse, ...]
    rehearsals: int = 1
    ended_well: int = 1


def judge_fit(
    workloads: Sequence[Workload],
    ways: Mapping[str, Way],
    counts: Mapping[str, int],
    sides: tuple[World, World],
    lives: tuple[Live, Live],
    not_judged: Iterable[str] = (),
) -> Fit:
    """Rehearse on the second of `lives`.

    `ways` and `counts` (pods wanted) are by the workload's title; `not_judged`: what is known to be missing.
    """
    pools_before = pool_use(lives[0].state.ledger)
    live, state = lives[1], lives[1].state
    belongs = {pod.uid: one.title for one in workloads for pod in live.of(one)}
    pods = {pod.uid: _pod(pod, belongs.get(pod.uid, f"{pod.namespace}/{pod.worker.workload}")) for pod in state.pods.values()}
    rolls: list[Roll] = []
    leaving: list[str] = []
    open_ends, refused = list(not_judged), False
    for one in workloads:
        uids = tuple(uid for uid, title in belongs.items() if title == one.title)
        way = ways[one.title]
        if way.how is How.OBJECT and one.refused:
            open_ends.append(f"{one.title}: it would be refused")
            refused = True
        if way.how in (How.NOTHING, How.KEPT, How.IN_PLACE, How.NEW_PODS, How.OBJECT):
            continue
        if one.after is not None and (one.after.unknown or one.after.unread_profile):
            open_ends.append(f"{one.title}: {_open(one)}")
            continue
        if one.after is not None and one.after.problems:
            open_ends.append(f"{one.title}: admission would refuse its pods")
            refused = True
            continue
        if counts[one.title] > MOST_PODS:
            open_ends.append(f"{one.title}: {counts[one.title]:,} pods are too many to rehearse, {MOST_PODS:,} at most")
            continue
        if way.how in (How.DELETED, How.REPLACED) and not one.change.deletes_first:
            leaving += uids
        if one.after is not None:
            rolls.append(_roll(one, way, counts[one.title], [pods[uid] for uid in uids]))
            open_ends += _behind_gates(rolls[-1], pods)
    resizes = dict(_resizes(state, sides, {roll_uid for roll in rolls for roll_uid in roll.old}))
    ordered, changed, booked = _in_order(pods.values(), state), {roll.owner for roll in rolls}, list(state.ledger)

    def tried(luck: Random | None) -> tuple[Fit, bool]:
        outcome = rehearse(state.ledger, ordered, rolls, leaving=leaving, resizes=resizes, luck=luck)
        state.ledger.restore(booked)
        fit = _fit(outcome, changed, open_ends, pools_before)
        return (replace(fit, verdict=Verdict.REFUSED) if refused and fit.verdict is Verdict.UNKNOWN else fit), outcome.by_chance

    likeliest, by_chance = tried(None)
    others = [tried(Random(seed))[0] for seed in range(TRIES)] if by_chance else []  # noqa: S311 (dice, no secrets)
    return _of_all((likeliest, *others))


def _of_all(fits: Sequence[Fit]) -> Fit:
    """One verdict of several rehearsals, the likeliest first."""
    bad = [fit for fit in fits if fit.verdict in (Verdict.WAITS, Verdict.DEADLOCK)]
    told = replace(bad[0], verdict=Verdict.MAY_WAIT) if 0 < len(bad) < len(fits) else fits[0]
    return replace(told, rehearsals=len(fits), ended_well=len(fits) - len(bad))


def _fit(outcome: Outcome, changed: set[str], open_ends: list[str], before: tuple[PoolUse, ...]) -> Fit:
    waited = {one.owner: one.pods for one in outcome.before}
    deadlocks = tuple(one.owner for one in outcome.stuck if one.would_fit)
    stuck = {one.owner for one in outcome.stuck}
    waiting = tuple(one for one in outcome.waiting if one.owner in changed)
    others = tuple(one for one in outcome.waiting if one.owner not in changed and one.pods > waited.get(one.owner, 0))
    refused = outcome.refused_resizes
    if {one.owner for one in waiting} | stuck > set(deadlocks) or refused:
        verdict = Verdict.WAITS
    elif deadlocks:
        verdict = Verdict.DEADLOCK
    else:
        verdict = Verdict.UNKNOWN if open_ends else Verdict.FITS
    return Fit(
        verdict, waiting, others, outcome.before, outcome.evicted, deadlocks,
        tuple(owner for owner in outcome.held_up if owner in changed), refused, tuple(open_ends), before, outcome.pools,
    )  # fmt: skip


def _roll(workload: Workload, way: Way, count: int, pods: list[Pod]) -> Roll:
    after, uids = workload.after, tuple(pod.uid for pod in pods)
    worker = after.worker if after is not None else None
    if worker is None:  # the pods stay, and ask for no GPU any more
        return Roll(workload.title, None, 0, old=uids)
    model = pods[0] if pods and workload.before and _same_class(workload) else None
    new = Pod(
        "", workload.title, workload.namespace, claim_of(worker), PRIORITY[worker.qos] if model is None else model.priority,
        shielded=worker.eviction_protection is not None, preempts=_preempts(workload, model), gang=_gang(worker),
    )  # fmt: skip
    if way.how is How.ROLLS and way.bounds is not None and uids:
        return Roll(workload.title, new, count, old=uids, bounds=way.bounds, scales_old=workload.kind == "Deployment")
    if way.how is How.REPLACED:
        old = uids if workload.change.deletes_first else ()
        return Roll(workload.title, new, count, old=old, bounds=Bounds(0 if old else count, count))
    if way.how in (How.SCALED, How.NEXT_RUN):
        return Roll(workload.title, new, count, kept=uids if way.how is How.SCALED else ())
    return Roll(workload.title, new, count)


def _behind_gates(roll: Roll, pods: Mapping[str, Pod]) -> Iterator[str]:
    """Pods that stay, and are not to be scheduled for a reason that is not known here. If some are to go, they go first."""
    left = sum(pods[uid].gated for uid in roll.kept) - max(0, len(roll.kept) - roll.count)
    if left > 0:
        yield f"{roll.owner}: {left} of its pods {'is' if left == 1 else 'are'} held back by a scheduling gate"


def _preempts(workload: Workload, model: Pod | None) -> bool:
    """Whether its new pods may evict: as the template says, else as their class does, which a pod of that (`model`) shows."""
    template = workload.after.template if workload.after is not None else None
    spec = template.get("spec") if isinstance(template, Mapping) else None
    policy = spec.get("preemptionPolicy") if isinstance(spec, Mapping) else None
    return policy != "Never" if policy is not None else model is None or model.preempts


def _same_class(workload: Workload) -> bool:
    before, after = workload.before, workload.after
    if before is None or after is None or before.seen is None or after.seen is None:
        return False
    return before.seen.priority_class == after.seen.priority_class


def _pod(pod: GpuPod, owner: str) -> Pod:
    started = pod.started.timestamp() if pod.started else 0.0
    gang = None if pod.terminating else _gang(pod.worker)
    ours = set() if gang is None else {GANG_GATE}
    return Pod(
        pod.uid, owner, pod.namespace, pod.claim, pod.priority, started,
        shielded=pod.terminating or pod.worker.eviction_protection is not None,
        preempts=pod.preempts, gated=bool(set(pod.gates) - ours), gang=gang,
    )  # fmt: skip


def _gang(worker: WorkerSpec) -> Gang | None:
    return None if worker.gang is None else Gang(worker.workload, worker.gang.min_members)


def _in_order(pods: Iterable[Pod], state: ClusterState) -> list[Pod]:
    """The older ones first: they have waited longest."""
    return sorted(pods, key=lambda pod: (state.pods[pod.uid].created, pod.uid))


def _resizes(state: ClusterState, sides: tuple[World, World], going: set[str]) -> Iterator[tuple[str, Desired]]:
    """Pods whose profile gives other amounts now, and what they are to have, on the cards where they are."""
    for uid, pod in state.pods.items():
        profile = pod.worker.profile
        if profile is None or uid in going or state.ledger.get(uid) is None:
            continue
        keys = pod.namespace, profile.name
        was, now = sides[0].profiles.get(keys), sides[1].profiles.get(keys)
        if was is None or now is None or was.spec == now.spec:
            continue
        edited = as_edited(pod.worker, _sources(pod), sides[1].objects["WorkloadProfile", *keys].get("spec") or {})
        if edited != pod.worker:
            yield uid, _desired(state, uid, edited)


def _desired(state: ClusterState, uid: str, worker: WorkerSpec) -> Desired:
    entry = state.ledger.get(uid)
    card = state.inventory.card(entry.reservation.shares[0].uuid) if entry is not None else None
    if card is None:
        return Desired()
    share = share_on(claim_of(replace(worker, partition_template=None)), card)
    return Desired(tflops(share.mflops), tflops(share.limit_mflops), share.vram_bytes, share.limit_vram_bytes)


def _sources(pod: GpuPod) -> Mapping[str, str]:
    try:
        found = json.loads(pod.annotations[RESOLVED]).get("sources")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _open(workload: Workload) -> str:
    after = workload.after
    if after is not None and after.unread_profile:
        return f"WorkloadProfile {after.unread_profile} is not at hand"
    return f"{', '.join(after.unknown if after else ())} known only at deployment"
