"""One workload in the making: its object in manifest form, what it asks for, and everything that is wrong with it.

From the arguments alone, before anything is registered. Parts that are known later stay Outputs (`late.py` finishes them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_kubernetes.core.v1 import ContainerArgs, PodSpecArgs, PodTemplateSpecArgs, ResourceRequirementsArgs

from tensorfusion_iac.api.context import Owner
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.asking import Asking, asking
from tensorfusion_iac.components.camel import camel, spelled_twice
from tensorfusion_iac.components.component import Checks
from tensorfusion_iac.components.inputs import is_deferred, is_known, when_known, without_deferred
from tensorfusion_iac.components.judge import Known, Verdict, judge
from tensorfusion_iac.components.manifest import Unread
from tensorfusion_iac.components.object_metadata import misplaced, object_metadata
from tensorfusion_iac.components.pod_template import (
    camel_template,
    facts_of,
    is_readable,
    labelled,
    own_keys,
    selected_by,
    with_metadata,
    with_restart_policy,
)
from tensorfusion_iac.components.pods import pod_template
from tensorfusion_iac.components.shape import Shape, get_path, laid_over, with_path


@dataclass(frozen=True, slots=True)
class Plan:
    """`spec` holds the template as the arguments give it, not yet marked; `pods` is how many run at once, None if not said.

    `verdict` is None where only a part could be judged. `known.naming` calls a problem's field as the program does. `up`
    waits for the object if `waits`, for `timeout_s` or as long as pulumi does.
    """

    shape: Shape
    metadata: Any
    spec: Mapping[str, Any]
    asked: Asking
    known: Known
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    verdict: Verdict | None
    waits: bool
    timeout_s: float | None

    @property
    def template(self) -> Any:
        """The pod template."""
        return get_path(self.spec, self.shape.template)

    @property
    def pods(self) -> Any:
        """How many pods run at once."""
        return get_path(self.spec, self.shape.pods)


def plan(shape: Shape, names: tuple[str, ...], name: str, arguments: Mapping[str, Any]) -> Plan:
    """Plan the workload `name`. `names` are the arguments that its component has."""
    unread = arguments.get("manifest")
    if isinstance(unread, Unread):
        return _refused(shape, names, name, arguments, unread)
    checks = _checked(shape, names, arguments)
    given, problems, warnings = checks.arguments, checks.problems, misplaced(checks.arguments.get("annotations"))
    asked = asking(given, problems)
    spec = _spec(shape, name, given, problems)
    problems = [problem for problem in problems if problem.field not in checks.misspelled]
    template = get_path(spec, shape.template)
    own = {key: PREFIX + key for key in own_keys(template)}
    known = Known(Owner(shape.kind, name), asked.profile, asked.pool, {**own, **asked.names})
    verdict, part = _judged(asked, template, get_path(spec, shape.pods), known)
    problems += part.problems
    if given.get("vgpu") is arguments.get("vgpu"):  # of one that is no VGPU, nobody knows what it asks for
        warnings += part.warnings
    waits = shape.can_wait and given.get("wait", shape.waits)
    warnings += _wait_warnings(waits, given)
    skip = {"pulumi.com/skipAwait": "true"} if shape.can_wait and not waits else {}
    metadata = object_metadata(given, None if shape.autonamed else name, skip, problems)
    timeout_s = given.get("timeout_s") if waits else None
    return Plan(shape, metadata, spec, asked, known, tuple(problems), tuple(warnings), verdict, waits, timeout_s)


def _refused(shape: Shape, names: tuple[str, ...], name: str, arguments: Mapping[str, Any], unread: Unread) -> Plan:
    """The plan of an object of which only the arguments beside its manifest can be judged."""
    given = {argument: value for argument, value in arguments.items() if argument != "manifest"}
    checks = _checked(shape, names, {"spec": {}, **given})
    problems = [*unread.problems, *checks.problems]
    asked = asking(checks.arguments, problems)
    known = Known(Owner(shape.kind, name), asked.profile, asked.pool, asked.names)
    values = {key: value for key, value in asked.values.items() if is_known(value)}
    if asked.enabled is not False:
        problems += judge({}, values, known, None, set(asked.values) - set(values)).problems
    return Plan(shape, {}, {}, asked, known, tuple(problems), (), None, False, None)


def _checked(shape: Shape, names: tuple[str, ...], arguments: Mapping[str, Any]) -> Checks:
    checks = Checks(arguments, names, {} if "spec" in arguments else shape.required)
    checks.vgpu()
    checks.flag("enabled")
    checks.flag("wait", deferrable=False)
    checks.seconds("timeout_s")
    checks.whole("replicas", "parallelism", "completions", "backoff_limit", "revision_history_limit", "min_ready_seconds",
                 "progress_deadline_seconds", "active_deadline_seconds", "ttl_seconds_after_finished",
                 "starting_deadline_seconds", "successful_jobs_history_limit", "failed_jobs_history_limit")  # fmt: skip
    checks.text("namespace", "image", "schedule", "service_name", "time_zone", "concurrency_policy")
    checks.mapping("strategy", "selector", "labels", "annotations", "pod_annotations", "metadata", "pod_template", "spec",
                   "pod_spec", "resources")  # fmt: skip
    for argument, kind in {**_KINDS, "spec": shape.spec_args}.items():
        checks.problems += spelled_twice(checks.arguments.get(argument), kind, argument)
    return checks


_KINDS: Mapping[str, Any] = {
    "pod_template": PodTemplateSpecArgs,
    "pod_spec": PodSpecArgs,
    "containers": Sequence[ContainerArgs],
    "resources": ResourceRequirementsArgs,
}


def _wait_warnings(waits: bool, arguments: Mapping[str, Any]) -> list[Problem]:
    if waits or "timeout_s" not in arguments:
        return []
    found = quote(arguments["timeout_s"])
    return [Problem("timeout_s", found, "wait=True", "{found} says nothing without {accepted}; ignored")]


# The object.


def _spec(shape: Shape, name: str, arguments: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    given = camel(arguments.get("spec"), shape.spec_args) or {}
    if is_deferred(given):
        problems.append(Problem("spec", "an Output", "a mapping, whose values may be Outputs", "{found}; give {accepted}"))
        given = {}
    fields: dict[str, Any] = {}
    for argument, path in shape.spec_fields.items():
        if argument in arguments:
            fields = with_path(fields, path, arguments[argument])
    spec = laid_over(given, camel(fields, shape.spec_args))
    template = get_path(given, shape.template)
    if template is None or any(part in arguments for part in ("image", "containers", "pod_template")):
        template = pod_template(arguments, name, problems)
    spec = with_path(spec, shape.template, _dressed(shape, template, arguments))
    return _selecting(shape, spec, name) if shape.selects else spec


def _dressed(shape: Shape, template: Any, arguments: Mapping[str, Any]) -> Any:
    """The template with the arguments' labels and annotations, and what its kind cannot do without."""
    parts = {
        "template": template,
        "labels": arguments.get("labels") or {},
        "annotations": arguments.get("pod_annotations") or {},
    }

    def dress(parts: Mapping[str, Any]) -> Any:
        dressed = with_metadata(parts["template"], parts["labels"], parts["annotations"])
        return with_restart_policy(dressed, shape.restart_policy) if shape.restart_policy else dressed

    if is_readable(template) and not is_deferred(parts["labels"]) and not is_deferred(parts["annotations"]):
        return dress(parts)
    return when_known(parts, lambda late: dress({**late, "template": camel_template(late["template"])}))


def _selecting(shape: Shape, spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The spec with a selector: the one given, else by one label, which the template gets if it has none."""
    if spec.get("selector") is not None:
        return dict(spec)
    template = get_path(spec, shape.template)
    if is_deferred(template):
        template = when_known(template, lambda late: labelled(late, name))
        selector: Any = when_known(template, selected_by)
    else:
        template = labelled(template, name)
        selector = selected_by(template)
    return with_path({**spec, "selector": selector}, shape.template, template)


# The judgement.


def _judged(asked: Asking, template: Any, pods: Any, known: Known) -> tuple[Verdict | None, Verdict]:
    """The verdict if everything is known, and what can be said now."""
    if asked.enabled is False:
        return Verdict(), Verdict()
    count = pods if isinstance(pods, int) else None
    facts = facts_of(template) if is_readable(template) else {}
    if asked.enabled is True and facts and is_known(facts) and is_known(asked.values) and not is_deferred(pods):
        verdict = judge(facts, asked.values, known, count)
        return verdict, verdict
    values = {key: value for key, value in asked.values.items() if is_known(value)}
    unknown = set(asked.values) - set(values)
    part: dict[str, Any] = {}
    if facts:
        annotations, missing = without_deferred(facts["metadata"]["annotations"])
        unknown |= {path[0][len(PREFIX) :] for path in missing}
        part["metadata"] = {"annotations": annotations}
        if is_known(facts["spec"]):
            part["spec"] = facts["spec"]
    return None, judge(part, values, known, count, unknown)
