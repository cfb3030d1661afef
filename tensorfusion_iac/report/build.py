"""The report of one preview, as values: what changes, demand, fit, cost and risks; the doors show it as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.report.cost import Cost, price_of
from tensorfusion_iac.report.demand import Demand, demand_of
from tensorfusion_iac.report.fit import Fit, judge_fit
from tensorfusion_iac.report.fleet import PoolCards, fleet_of
from tensorfusion_iac.report.live import Cluster, Live
from tensorfusion_iac.report.preview import Preview
from tensorfusion_iac.report.risks import Risk, risks_of
from tensorfusion_iac.report.rolls import How, Way, way_of
from tensorfusion_iac.report.words import described
from tensorfusion_iac.report.workloads import Asked, Workload, workloads_of
from tensorfusion_iac.report.world import World, worlds


@dataclass(frozen=True, slots=True)
class Row:
    """One workload that changes: what changes, in words, and how that reaches its pods."""

    title: str
    kind: str
    how: How
    what: tuple[str, ...]
    way: str


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. `fit` None: no cluster was at hand. `open_demand`: workloads whose demand is not known, left out of the sums."""

    project: str
    stack: str
    errors: tuple[str, ...]
    rows: tuple[Row, ...]
    unchanged: int
    unseen: int
    others: int
    demand: tuple[Demand, ...]
    open_demand: tuple[str, ...]
    fit: Fit | None
    costs: tuple[Cost, ...]
    risks: tuple[Risk, ...]

    def total_cost(self) -> tuple[Decimal, Decimal]:
        """US dollars an hour before and after, of the workloads that have a price on both sides."""
        pairs = [(cost.before, cost.after) for cost in self.costs if cost.before is not None and cost.after is not None]
        return sum((before for before, _ in pairs), Decimal(0)), sum((after for _, after in pairs), Decimal(0))


def report_of(preview: Preview, cluster: Cluster | None) -> Report:
    """The report. `cluster`: the objects of the cluster as it is now; None if it is not at hand."""
    before, after = worlds(preview.changes, None if cluster is None else cluster.objects)
    workloads = workloads_of(preview.changes, before, after)
    lives = None if cluster is None else (Live(cluster, before), Live(cluster, after))
    fleet: Mapping[str, PoolCards] = {} if lives is None else _fleet(lives)
    counts = {one.title: _counts(one, lives) for one in workloads}
    ways = {one.title: way_of(one, counts[one.title][1]) for one in workloads}
    wanted = {title: pair[1] for title, pair in counts.items()}
    missing = ["what the failed preview does not show"] if preview.errors else []
    fit = None if lives is None else judge_fit(workloads, ways, wanted, (before, after), lives, missing)
    rows = tuple(_rows(workloads, ways, counts))
    known = [one for one in workloads if not any(side is not None and _is_open(side) for side in (one.before, one.after))]
    return Report(
        preview.project,
        preview.stack,
        preview.errors,
        rows,
        len(workloads) - len(rows),
        preview.unseen,
        sum(1 for change in preview.changes if change.before != change.after) - _told(workloads),
        demand_of(_workers(known, 0, counts), _workers(known, 1, counts)),
        tuple(one.title for one in workloads if one not in known),
        fit,
        tuple(_costs(workloads, counts, (before, after), fleet)),
        risks_of(preview, workloads, ways, fit, fleet),
    )


def _fleet(lives: tuple[Live, Live]) -> Mapping[str, PoolCards]:
    """The cards of each pool, of those that are new and of those that go too."""
    return {**fleet_of(lives[0].state), **fleet_of(lives[1].state)}


def _told(workloads: Sequence[Workload]) -> int:
    return sum(1 for one in workloads if one.change.before != one.change.after)


def _counts(workload: Workload, lives: tuple[Live, Live] | None) -> tuple[int, int]:
    """Pods before and after; where no count is written, as many as run, else one (a DaemonSet: one on each node)."""
    sides = workload.before, workload.after
    running = len(lives[0].of(workload)) if lives is not None else 0
    if not running and lives is not None and workload.kind == "DaemonSet":
        seen = next((side.seen for side in reversed(sides) if side is not None), None)
        running = 0 if seen is None else lives[1].nodes(seen.pool)
    before, after = (0 if side is None else side.workers(running or 1) for side in sides)
    return before, after


def _rows(workloads: Sequence[Workload], ways: Mapping[str, Way], counts: Mapping[str, tuple[int, int]]) -> Iterator[Row]:
    for one in workloads:
        way = ways[one.title]
        if way.how in (How.NOTHING, How.OBJECT):
            continue
        refused = one.after is not None and bool(one.after.problems)
        what = ("its pods would be refused",) if refused else described(one, counts[one.title])
        yield Row(one.title, one.kind, way.how, what or ("nothing that GPUs are asked for",), way.text)


def _is_open(side: Asked) -> bool:
    """Whether it cannot be told what it asks for."""
    return bool(side.unknown or side.unread_profile or side.problems)


def _workers(workloads: Sequence[Workload], side: int, counts: Mapping[str, tuple[int, int]]) -> Iterator[tuple[WorkerSpec, int]]:
    for one in workloads:
        found = (one.before, one.after)[side]
        if found is not None and found.worker is not None:
            yield found.worker, counts[one.title][side]


def _costs(
    workloads: Sequence[Workload],
    counts: Mapping[str, tuple[int, int]],
    sides: tuple[World, World],
    fleet: Mapping[str, PoolCards],
) -> Iterator[Cost]:
    for one in workloads:
        amounts: list[Decimal | None] = []
        sources: dict[str, None] = {}
        missing: dict[str, None] = {}
        for side, count, world in zip((one.before, one.after), counts[one.title], sides, strict=True):
            if side is None or (not side.enabled and not side.unknown):
                amounts.append(Decimal(0))
            elif side.worker is None or _is_open(side):
                amounts.append(None)
                missing["what it asks for is not known" if _is_open(side) else "refused"] = None
            else:
                per_worker, source = price_of(side.worker, world.pools, fleet)
                amounts.append(None if per_worker is None else per_worker * count)
                (missing if per_worker is None else sources)[source] = None
        yield Cost(one.title, amounts[0], amounts[1], "; ".join([*sources, *missing]), "; ".join(missing))
