"""The report as Markdown for a pull request: short enough for a comment, in a stable order, findable again by its marker.

Everything that comes from objects is escaped: a name must not become a link, a mention, or the end of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.planning.placing import Waiting
from tensorfusion_iac.planning.simulate import PoolUse
from tensorfusion_iac.report.build import Report
from tensorfusion_iac.report.cost import monthly, usd
from tensorfusion_iac.report.demand import Sum
from tensorfusion_iac.report.fit import Fit, Verdict
from tensorfusion_iac.report.rolls import How

MOST_CHARACTERS = 64_000
"""GitHub takes 65,536; what is above is refused there."""
_MOST_ROWS = (1_000, 400, 200, 100, 50, 20, 10, 5)
_MOST_CELL = 400
_MOST_NAMED = 3
"""Workloads named for one reason in the summary; the tables name all."""
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")

VERDICTS = {
    Verdict.FITS: "it fits",
    Verdict.MAY_WAIT: "it may not fit: that depends on which pods their controllers take away first",
    Verdict.WAITS: "it does not fit",
    Verdict.DEADLOCK: "there is room, but a rolling update would never end",
    Verdict.REFUSED: "admission would refuse pods of it: see the risks",
    Verdict.UNKNOWN: "what is known fits; the rest cannot be told before the deployment",
}


def marker(report: Report) -> str:
    """The hidden line by which a comment of this stack is found again, to be updated."""
    name = re.sub(r"[^A-Za-z0-9_./-]", "_", f"{report.project}/{report.stack}")
    return f"<!-- tensorfusion-report: {name} -->"


def markdown(report: Report) -> str:
    """The report, of less than MOST_CHARACTERS characters; what is left out for that is told."""
    text = ""
    for rows in _MOST_ROWS:
        text = "\n".join(_lines(report, rows)).rstrip() + "\n"
        if len(text) < MOST_CHARACTERS:
            return text
    note = "\n\n(cut here; `--output json` has all of it)\n"
    return text[: MOST_CHARACTERS - len(note) - 1] + note


def cell(text: str) -> str:
    """Text of an object as Markdown that shows just that, on one line."""
    flat = " ".join(text.split())
    flat = flat if len(flat) <= _MOST_CELL else flat[: _MOST_CELL - 3] + "..."
    flat = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in flat)
    flat = flat.replace("->", "\N{RIGHTWARDS ARROW}").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", flat).replace("@", "@<!-- -->")  # so that nobody is mentioned


def _lines(report: Report, rows: int) -> Iterator[str]:
    yield marker(report)
    name = f"{report.project}/{report.stack}" if report.project else "a preview"
    yield f"### TensorFusion: {cell(name)}"
    yield ""
    yield from _summary(report)
    yield from _section("What changes", _changes(report, rows))
    yield from _section("Risks", _risks(report, rows))
    yield from _section("Fit", _fit(report.fit, rows))
    yield from _section("Demand", _demand(report, rows))
    yield from _section("Cost", _cost(report, rows))


def _summary(report: Report) -> Iterator[str]:
    counts: dict[How, int] = {}
    for row in report.rows:
        counts[row.how] = counts.get(row.how, 0) + 1
    told = ", ".join(f"{count} {how.value}" for how in How if (count := counts.get(how)))
    if report.errors:
        yield "**The preview failed; this report covers only what it shows.**"
        yield ""
    nothing = "not known" if report.errors else "no change"
    yield f"- **Workloads with GPUs:** {told or nothing}" + (f"; {report.unchanged} unchanged" if report.unchanged else "")
    if report.fit is None:
        yield "- **Fit:** not judged, for no cluster was given (`--kubeconfig` or `--snapshot`)"
    else:
        fit = report.fit
        odds = f" ({fit.ended_well} of {fit.rehearsals} rehearsals ended well)" if fit.verdict is Verdict.MAY_WAIT else ""
        yield f"- **Fit:** {VERDICTS[fit.verdict]}{odds}"
    yield from _total_cost(report)
    kinds = list(dict.fromkeys(risk.kind.value for risk in report.risks))
    yield f"- **Risks:** {len(report.risks)}" + (f" ({', '.join(kinds)})" if kinds else "")
    if report.others:
        yield f"- Other Kubernetes objects that change: {report.others}"
    if report.unseen:
        yield (
            f"- {report.unseen} resources of the stack stay as they are and are not in this preview, nor in its sums: "
            "`pulumi preview --json --show-sames` shows them"
        )


def _total_cost(report: Report) -> Iterator[str]:
    """The sum of what is known, and what is not in it, by reason."""
    missing: dict[str, list[str]] = {}
    for cost in report.costs:
        if cost.missing:
            missing.setdefault(cost.missing, []).append(cost.title)
    before, after = report.total_cost()
    sums = f"{usd(before)} \N{RIGHTWARDS ARROW} {usd(after)} USD an hour"
    if (missing or report.errors) and all(cost.missing for cost in report.costs):
        yield "- **Cost:** not known"
    else:
        yield f"- **Cost:** {sums}" + (", and what is not known" if missing else "")
    for reason, titles in missing.items():
        more = f" and {len(titles) - _MOST_NAMED} more" if len(titles) > _MOST_NAMED else ""
        yield f"  - of {cell(', '.join(titles[:_MOST_NAMED]))}{more}: {cell(reason)}"


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if any(found):
        yield ""
        yield f"#### {title}"
        yield from (found if found[0] == "" else ["", *found])


def _changes(report: Report, rows: int) -> Iterator[str]:
    cells = [(row.title, "; ".join(row.what), row.way) for row in report.rows]
    yield from _table(("workload", "what changes", "how it is applied"), cells, rows, "workloads")


def _risks(report: Report, rows: int) -> Iterator[str]:
    shown = report.risks[:rows]
    for risk in shown:
        yield f"- **{risk.kind.value}** {cell(risk.subject)}: {cell(risk.text)}"
    yield from _left_out(len(report.risks) - len(shown), "risks")


def _fit(fit: Fit | None, rows: int) -> Iterator[str]:
    if fit is None:
        return
    if fit.verdict is Verdict.MAY_WAIT:
        yield "- in one of the rehearsals that did not end well:"
    for title, entries in (("would wait", fit.waiting), ("of others would wait", fit.waiting_others)):
        yield from _waiting(title, entries, rows)
    evicted: dict[tuple[str, str, str], int] = {}
    for one in fit.evicted:
        evicted[one.owner, one.node, one.by] = evicted.get((one.owner, one.node, one.by), 0) + 1
    lines = [f"{count} of {cell(owner)} on {cell(node)} preempted by {cell(by)}" for (owner, node, by), count in evicted.items()]
    yield from _listed(lines, rows, "preemptions")
    yield from _listed([f"rolling update of {cell(owner)} would not end" for owner in fit.deadlocks], rows, "deadlocks")
    yield from _listed([f"{cell(owner)} waits until others are deleted" for owner in fit.held_up], rows, "workloads")
    yield from _listed([f"not judged: {cell(text)}" for text in fit.not_judged], rows, "workloads")
    waited = sum(one.pods for one in fit.waited_before)
    if waited:
        yield f"- {waited} pods wait already, before this change"
    before = {use.pool: use for use in fit.pools_before}
    after = {use.pool: use for use in fit.pools_after}
    yield ""
    yield from _table(
        ("pool", "GPUs", "idle", "free TFLOPS", "free VRAM"),
        [
            (
                pool,
                _arrow(before, after, pool, lambda use: str(use.gpus)),
                _arrow(before, after, pool, lambda use: str(use.idle_gpus)),
                _arrow(before, after, pool, lambda use: use.free_tflops),
                _arrow(before, after, pool, lambda use: _gib(use.free_vram_bytes)),
            )
            for pool in sorted({*before, *after})
        ],
        rows,
        "pools",
    )


def _waiting(title: str, entries: Sequence[Waiting], rows: int) -> Iterator[str]:
    lines = [f"{one.pods} of {cell(one.owner)} {title}: {cell(one.why.text())}" for one in entries]
    yield from _listed(lines, rows, "workloads")


def _listed(lines: Sequence[str], rows: int, what: str) -> Iterator[str]:
    yield from (f"- {line}" for line in lines[:rows])
    yield from _left_out(len(lines) - rows, what)


def _arrow(before: dict[str, PoolUse], after: dict[str, PoolUse], pool: str, show: Callable[[PoolUse], str]) -> str:
    was, now = (show(uses[pool]) if pool in uses else "-" for uses in (before, after))
    return _change(was, now)


def _demand(report: Report, rows: int) -> Iterator[str]:
    cells = []
    for one in report.demand:
        sides = one.before, one.after
        cells.append(
            (
                one.group.pool,
                one.group.qos,
                one.group.model,
                *(
                    _pair(sides, show)
                    for show in (lambda of: str(of.workers), lambda of: str(of.gpus), _compute, lambda of: _gib(of.vram_bytes))
                ),
            )
        )
    yield from _table(("pool", "QoS", "model", "workers", "GPUs", "compute requests", "VRAM requests"), cells, rows, "groups")
    for title in report.open_demand[:rows]:
        yield f"- not in these sums, since it is not known: {cell(title)}"
    yield from _left_out(len(report.open_demand) - rows, "workloads")


def _pair(sides: tuple[Sum, Sum], show: Callable[[Sum], str]) -> str:
    return _change(show(sides[0]), show(sides[1]))


def _compute(of: Sum) -> str:
    parts = [f"{format_decimal(of.tflops)} TFLOPS"] if of.tflops or not (of.card_parts or of.whole_cards) else []
    parts += [f"{format_decimal(of.card_parts)} cards (by percent)"] if of.card_parts else []
    parts += [f"{of.whole_cards} whole card{'s' if of.whole_cards > 1 else ''}"] if of.whole_cards else []
    return " + ".join(parts)


def _cost(report: Report, rows: int) -> Iterator[str]:
    changed = [cost for cost in report.costs if cost.before != cost.after or cost.before is None]
    cells = [
        (cost.title, *_amounts(cost.before, cost.after), cost.source)
        for cost in changed
    ]  # fmt: skip
    before, after = report.total_cost()
    if not all(cost.missing for cost in report.costs):
        cells = [("all workloads shown", *_amounts(before, after), ""), *cells]
    yield from _table(("workload", "USD an hour", "USD a month (730 h)", "price"), cells, rows + 1, "workloads")


def _amounts(before: Decimal | None, after: Decimal | None) -> tuple[str, str]:
    return _change(usd(before), usd(after)), _change(usd(monthly(before)), usd(monthly(after)))


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _table(columns: Sequence[str], cells: Sequence[Sequence[str]], rows: int, what: str) -> Iterator[str]:
    if not cells:
        return
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in cells[:rows]:
        yield f"| {' | '.join(map(cell, row))} |"
    if len(cells) > rows:
        yield ""
    yield from _left_out(len(cells) - rows, what)


def _left_out(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f"- ... and {count} more {what}, left out to stay under {MOST_CHARACTERS:,} characters (`--output json` has all)"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.4g}Gi" if size_bytes % 2**30 or not size_bytes else format_bytes(size_bytes)
