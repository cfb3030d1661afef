"""What a plan sends: the marked template, and what the workload asks for in all; parts known later wait for their judgement.

Known leaves stay visible in a preview. A leaf that comes later is put behind one Output that judges the whole workload once
it is known, so that nothing is sent for a workload that is then refused (research: "gate the child's input").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pulumi

from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.components.inputs import is_deferred, is_known, when_known
from tensorfusion_iac.components.judge import Verdict, judge
from tensorfusion_iac.components.plan import Plan
from tensorfusion_iac.components.pod_template import camel_template, facts_of, is_readable, marked, plain, with_late_facts
from tensorfusion_iac.components.requested import Requested, requested
from tensorfusion_iac.components.secret import Path, secret_paths, without_secrets
from tensorfusion_iac.components.shape import with_path

Report = Callable[[Verdict], None]
"""Tells the user of a verdict's warnings, and raises SpecError if it refuses."""


Sent = tuple[dict[str, Any], Requested | pulumi.Output[Requested]]
"""The spec to send, and the sum of what it asks for."""


def finish(plan: Plan, report: Report, registered: Callable[[], pulumi.Output[Any]]) -> Sent:
    """Finish the plan. `report` hears of verdicts that come later, and of none
    before what `registered` makes is known.
    """
    if plan.verdict is not None:
        total = requested(plan.verdict, _count(plan.pods))
        return _sent(plan, _done(plan.template, plan.asked.enabled, plan.verdict.texts)), total
    if plan.asked.enabled is True and is_readable(plan.template):
        return _leaf_by_leaf(plan, report, registered())
    return _as_a_whole(plan, report, registered())


def _leaf_by_leaf(plan: Plan, report: Report, first: pulumi.Output[Any]) -> Sent:
    def check(late: Mapping[str, Any]) -> Requested:
        return _judged(plan, camel_template(late["facts"]), late, report)[1]

    asked = plan.asked.values
    parts = {"facts": facts_of(plan.template), "asked": asked, "pods": plan.pods}
    checked = when_known({**parts, "secret": secret_paths(parts), "first": first}, check)
    texts = {key: as_text(key, value) if is_known(value) else _text_after(checked, key, value) for key, value in asked.items()}
    template = with_late_facts(plan.template, lambda leaf: _after(checked, leaf))
    sent = _sent(plan, marked(template, _keyed(texts)))
    if is_deferred(plan.pods):
        sent = with_path(sent, plan.shape.pods, _after(checked, plan.pods))
    return sent, checked


def _as_a_whole(plan: Plan, report: Report, first: pulumi.Output[Any]) -> Sent:
    def check(late: Mapping[str, Any]) -> tuple[dict[str, Any], Requested]:
        template = camel_template(late["template"])
        if not late["enabled"]:
            return plain(template), requested(Verdict(), None)
        verdict, total = _judged(plan, template, late, report)
        return marked(template, _keyed(verdict.texts)), total

    parts = {"template": plan.template, "enabled": plan.asked.enabled, "asked": plan.asked.values, "pods": plan.pods}
    deciding = {**parts, "template": facts_of(plan.template) if is_readable(plan.template) else plan.template}
    checked = when_known({**parts, "secret": secret_paths(deciding), "first": first}, check)
    return _sent(plan, checked.apply(lambda done: done[0])), checked.apply(lambda done: done[1])


def _judged(plan: Plan, template: Any, late: Mapping[str, Any], report: Report) -> tuple[Verdict, Requested]:
    pods = _count(late["pods"])
    verdict = judge(facts_of(template), late["asked"], plan.known, pods)
    report(_told(verdict, late["asked"], late["secret"]))
    return verdict, requested(verdict, pods)


def _told(verdict: Verdict, asked: Mapping[str, Any], secret: frozenset[Path]) -> Verdict:
    """The verdict as it may be told: without what is secret."""

    def is_open(field: str) -> bool:
        return field in asked and not any(path[:2] == ("asked", field) for path in secret)

    problems = without_secrets(verdict.problems, secret, is_open)
    return replace(verdict, problems=problems, warnings=without_secrets(verdict.warnings, secret, is_open))


def _done(template: Mapping[str, Any], enabled: bool, texts: Mapping[str, str]) -> dict[str, Any]:
    return marked(template, _keyed(texts)) if enabled else plain(template)


def _sent(plan: Plan, template: Any) -> dict[str, Any]:
    return with_path(plan.spec, plan.shape.template, template)


def _keyed(texts: Mapping[str, Any]) -> dict[str, Any]:
    return {PREFIX + key: texts[key] for key in BY_KEY if key in texts}


def _after(checked: pulumi.Output[Any], leaf: Any) -> pulumi.Output[Any]:
    return pulumi.Output.all(checked, leaf).apply(lambda both: both[1])


def _text_after(checked: pulumi.Output[Any], key: str, value: Any) -> pulumi.Output[str]:
    return pulumi.Output.all(checked, value).apply(lambda both: as_text(key, both[1]))


def _count(pods: Any) -> int | None:
    """Whole numbers that went through the engine come back as floats."""
    return int(pods) if isinstance(pods, (int, float)) else None
