"""What a reviewer should know before approving: each risk has a kind, which `--fail-on` can name (docs/guides/report.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.api.worker import Source, WorkerSpec
from tensorfusion_iac.report.fit import Fit, Verdict
from tensorfusion_iac.report.fleet import PoolCards, cards_for
from tensorfusion_iac.report.preview import Change, Preview
from tensorfusion_iac.report.rolls import How, Way
from tensorfusion_iac.report.words import unknown_words
from tensorfusion_iac.report.workloads import Workload


class Kind(StrEnum):
    """The kinds of risk, the worst first."""

    BROKEN = "broken-preview"
    CRD_DELETED = "crd-deleted"
    POOL_DELETED = "pool-deleted"
    REFUSED = "refused"
    WONT_FIT = "wont-fit"
    DEADLOCK = "deadlock"
    PREEMPTS = "preempts"
    ENDS_PODS = "ends-pods"
    VRAM_ABOVE_CARD = "vram-above-card"
    WATCH_ONLY = "watch-only"
    LIMIT_WITHOUT_REQUEST = "limit-without-request"
    WHOLE_CARD = "whole-card"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Risk:
    """One risk: what it is about (a workload, an object, or the preview), and what may happen."""

    kind: Kind
    subject: str
    text: str


_CRD = "CustomResourceDefinition"


def risks_of(
    preview: Preview,
    workloads: Sequence[Workload],
    ways: Mapping[str, Way],
    fit: Fit | None,
    fleet: Mapping[str, PoolCards],
) -> tuple[Risk, ...]:
    """All risks, the worst first, then by subject."""
    found = [Risk(Kind.BROKEN, "preview", text) for text in preview.errors]
    found += _of_objects(preview.changes, workloads)
    if fit is not None:
        found += _of_fit(fit)
    for workload in workloads:
        way = ways[workload.title]
        if way.how is not How.NOTHING:
            found += _of_workload(workload, way, fleet)
    order = list(Kind)
    return tuple(sorted(dict.fromkeys(found), key=lambda risk: (order.index(risk.kind), risk.subject, risk.text)))


def _of_objects(changes: Iterable[Change], workloads: Sequence[Workload]) -> Iterator[Risk]:
    for change in changes:
        manifest = change.manifest
        if change.after is not None or change.retained or change.is_patch:
            continue
        if manifest.kind == _CRD:
            yield Risk(Kind.CRD_DELETED, manifest.name, "the definition is deleted, and with it every object of its kind")
        elif manifest.kind == "GPUPool":
            users = [one.title for one in workloads if one.after and one.after.seen and one.after.seen.pool == manifest.name]
            text = f"the pool is deleted; {', '.join(users)} name it" if users else "the pool is deleted; its nodes join no pool"
            yield Risk(Kind.POOL_DELETED, manifest.name, text)


def _of_fit(fit: Fit) -> Iterator[Risk]:
    chance = f"; by chance: {fit.ended_well} of {fit.rehearsals} rehearsals ended well" if fit.verdict is Verdict.MAY_WAIT else ""
    for one in fit.waiting:
        if one.owner not in fit.deadlocks:
            yield Risk(Kind.WONT_FIT, one.owner, f"{_pods(one.pods)} would wait: {one.why.text()}{chance}")
    for owner, why in fit.refused_resizes:
        yield Risk(Kind.WONT_FIT, owner, f"running pods would keep their amounts: {why}")
    for owner in fit.deadlocks:
        text = (
            "its rolling update never ends: a new pod finds no room while the old ones run, and none of them may go before it is "
            "ready; give maxUnavailable: 1, or strategy Recreate"
        )
        yield Risk(Kind.DEADLOCK, owner, f"{text}{chance}")
    for owner in fit.held_up:
        text = "waits for room that others give back only when they are deleted, which `pulumi up` does last: it may time out"
        yield Risk(Kind.DEADLOCK, owner, text)
    losers: dict[tuple[str, str], int] = {}
    for victim in fit.evicted:
        losers[victim.owner, victim.by] = losers.get((victim.owner, victim.by), 0) + 1
    waits = {one.owner: one.pods for one in fit.waiting_others}
    for (owner, by), count in losers.items():
        after = f"; {_pods(waits[owner])} of it would then wait" if owner in waits else ""
        yield Risk(Kind.PREEMPTS, by, f"evicts {_pods(count)} of {owner}{after}")


def _of_workload(workload: Workload, way: Way, fleet: Mapping[str, PoolCards]) -> Iterator[Risk]:
    after, before = workload.after, workload.before
    if after is None:
        return
    for problem in after.problems:
        yield Risk(Kind.REFUSED, workload.title, f"admission would refuse its pods: {problem}")
    if after.unknown and after.enabled:
        yield Risk(Kind.UNKNOWN, workload.title, unknown_words(after.unknown))
    if after.unread_profile:
        yield Risk(Kind.UNKNOWN, workload.title, f"WorkloadProfile {after.unread_profile} is not at hand")
    if way.how is How.REPLACED and before is not None:
        yield Risk(Kind.ENDS_PODS, workload.title, "its running pods end, and with them what they have not saved")
    worker, sources = after.worker, after.sources or {}
    if worker is None:
        return
    yield from _of_amounts(workload.title, worker, sources, before.seen if before is not None else None)
    yield from _of_cards(workload.title, worker, fleet)


def _of_amounts(title: str, worker: WorkerSpec, sources: Mapping[str, Source], before: WorkerSpec | None) -> Iterator[Risk]:
    derived = [side for side in ("tflops", "compute-percent", "vram") if sources.get(f"{side}-request") is Source.DERIVED]
    limited = [side for side in derived if sources.get(f"{side}-limit") not in (None, Source.DERIVED, Source.DEFAULT)]
    if limited:
        text = f"{', '.join(f'{side}-limit' for side in limited)} without a request: the whole limit is reserved"
        yield Risk(Kind.LIMIT_WITHOUT_REQUEST, title, text)
    if worker.whole_card and not (before is not None and before.whole_card and before.gpu_count == worker.gpu_count):
        cards = "a whole card" if worker.gpu_count == 1 else f"{worker.gpu_count} whole cards"
        was = "" if before is None or before.whole_card else ", where it had a part of one"
        yield Risk(Kind.WHOLE_CARD, title, f"each pod takes {cards}{was}; nobody else can use what it leaves idle")


def _of_cards(title: str, worker: WorkerSpec, fleet: Mapping[str, PoolCards]) -> Iterator[Risk]:
    cards = cards_for(worker, fleet)
    largest = max((card.capacity_vram_bytes for card in cards), default=None)
    if largest is not None and not worker.whole_card:
        for side, size in (("request", worker.vram_request_bytes), ("limit", worker.vram_limit_bytes)):
            if size is not None and size > largest:
                text = f"VRAM {side} {format_bytes(size)} is above the largest card it may get, {format_bytes(largest)}"
                yield Risk(Kind.VRAM_ABOVE_CARD, title, text)
                break
    pool = fleet.get(worker.pool or "")
    is_held = worker.isolation is Isolation.SOFT and worker.vram_limit_bytes is not None and not worker.whole_card
    if pool is not None and pool.watched and is_held:
        share = "all" if pool.watched == len(pool.cards) else f"{pool.watched} of {len(pool.cards)}"
        text = f"pool {worker.pool} only watches VRAM on {share} cards: a process above its limit is ended, not refused memory"
        yield Risk(Kind.WATCH_ONLY, title, text)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
