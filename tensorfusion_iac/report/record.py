"""The report as plain JSON values, for programs: nothing of it is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.quantity import format_decimal
from tensorfusion_iac.planning.placing import Waiting
from tensorfusion_iac.report.build import Report
from tensorfusion_iac.report.cost import monthly
from tensorfusion_iac.report.demand import Sum
from tensorfusion_iac.report.fit import Fit

_DIGITS = 20


def record(report: Report) -> dict[str, Any]:
    """Amounts are text as in Kubernetes, memory in bytes, money in US dollars as text; null is not known."""
    before, after = report.total_cost()
    return {
        "project": report.project,
        "stack": report.stack,
        "errors": list(report.errors),
        "workloads": [
            {"workload": row.title, "kind": row.kind, "how": row.how.value, "what": list(row.what), "applied": row.way}
            for row in report.rows
        ],
        "unchanged": report.unchanged,
        "unseen": report.unseen,
        "otherObjects": report.others,
        "demand": [
            {**one.group._asdict(), "before": _sum(one.before), "after": _sum(one.after)} for one in report.demand
        ],
        "demandUnknown": list(report.open_demand),
        "fit": None if report.fit is None else _fit(report.fit),
        "cost": {
            "usdPerHour": {"before": _money(before), "after": _money(after)},
            "usdPerMonth": {"before": _money(monthly(before)), "after": _money(monthly(after))},
            "workloads": [
                {"workload": cost.title, "before": _money(cost.before), "after": _money(cost.after), "source": cost.source,
                 "missing": cost.missing}
                for cost in report.costs
            ],
        },
        "risks": [{"kind": risk.kind.value, "subject": risk.subject, "text": risk.text} for risk in report.risks],
    }  # fmt: skip


def _fit(fit: Fit) -> dict[str, Any]:
    return {
        "verdict": fit.verdict.value,
        "rehearsals": fit.rehearsals,
        "endedWell": fit.ended_well,
        "waiting": _waiting(fit.waiting),
        "waitingOthers": _waiting(fit.waiting_others),
        "waitedBefore": _waiting(fit.waited_before),
        "preempted": [asdict(one) for one in fit.evicted],
        "deadlocks": list(fit.deadlocks),
        "heldUp": list(fit.held_up),
        "refusedResizes": [{"workload": owner, "why": why} for owner, why in fit.refused_resizes],
        "notJudged": list(fit.not_judged),
        "pools": {"before": [asdict(use) for use in fit.pools_before], "after": [asdict(use) for use in fit.pools_after]},
    }


def _waiting(entries: Iterable[Waiting]) -> list[dict[str, Any]]:
    return [{"workload": one.owner, "pods": one.pods, "why": one.why.text()} for one in entries]


def _sum(of: Sum) -> dict[str, Any]:
    return {
        "workers": of.workers,
        "gpus": of.gpus,
        "tflops": format_decimal(of.tflops),
        "cardParts": format_decimal(of.card_parts),
        "vramBytes": of.vram_bytes,
        "wholeCards": of.whole_cards,
    }


def _money(amount: Decimal | None) -> str | None:
    """To four places; of an absurd price, which leaves no room for them, as it is."""
    if amount is None:
        return None
    return format_decimal(amount if amount.adjusted() > _DIGITS else amount.quantize(Decimal("0.0001")))
