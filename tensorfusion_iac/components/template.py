"""`annotated_template`: any pod template with a VGPU's label and annotations on it (API.md).

For whatever has a pod template and is no workload of Kubernetes' own: other operators' resources, a chart's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from tensorfusion_iac.api.context import Owner
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.components.errors import SpecError
from tensorfusion_iac.components.inputs import is_deferred, is_known, when_known, without_deferred
from tensorfusion_iac.components.judge import Known, Verdict, judge
from tensorfusion_iac.components.pod_template import camel_template, facts_of, is_readable, marked, own_keys, plain
from tensorfusion_iac.components.vgpu import VGPU, argument_naming, texts_of


def annotated_template(template: Any, vgpu: VGPU, *, subject: str = "pod template") -> Any:
    """The pod template (an Args class or a mapping, either spelling) in manifest form, with what `vgpu` says.

    With `enabled=False` it is plain. Raises SpecError about `subject` with every problem. What is known later is judged then;
    the result is an Output if the template, its metadata, or their maps are.
    """
    given = camel_template(template)
    if is_deferred(given) or not is_readable(given) or is_deferred(vgpu.enabled):
        parts = {"template": given, "values": vgpu.values(), "enabled": vgpu.enabled}
        return when_known(parts, lambda late: _marked(camel_template(late["template"]), late["values"], late["enabled"], subject))
    return _marked(given, vgpu.values(), bool(vgpu.enabled), subject)


def _marked(template: Mapping[str, Any], values: Mapping[str, Any], enabled: bool, subject: str) -> dict[str, Any]:
    if not enabled:
        return plain(template)
    own = {key: PREFIX + key for key in own_keys(template)}
    known = Known(Owner("", ""), names={**own, **{key: f"vgpu.{argument_naming(key)}" for key in values}})
    facts = facts_of(template)
    if is_known(facts) and is_known(values):
        verdict = judge(facts, values, known)
        _raise(verdict, subject, known)
        return marked(template, _keyed(verdict.texts))
    part, now, unknown = _parts(facts, values)
    _raise(judge(part, now, known, unknown=unknown), subject, known)

    def check(late: Mapping[str, Any]) -> Mapping[str, str]:
        verdict = judge(facts_of(camel_template(late["facts"])), late["values"], known)
        _raise(verdict, subject, known)
        return verdict.texts

    checked = when_known({"facts": facts, "values": values}, check)
    texts, _ = texts_of(now)
    late_texts = {key: checked.apply(itemgetter(key)) for key in values if key not in texts}
    return marked(template, _keyed({**texts, **late_texts}))


def _parts(facts: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    now = {key: value for key, value in values.items() if is_known(value)}
    annotations, missing = without_deferred(facts["metadata"]["annotations"])
    part: dict[str, Any] = {"metadata": {"annotations": annotations}}
    if is_known(facts["spec"]):
        part["spec"] = facts["spec"]
    return part, now, {key for key in values if key not in now} | {path[0][len(PREFIX) :] for path in missing}


def _raise(verdict: Verdict, subject: str, known: Known) -> None:
    if verdict.problems:
        raise SpecError(subject, verdict.problems, known.naming)


def _keyed(texts: Mapping[str, Any]) -> dict[str, Any]:
    return {PREFIX + key: texts[key] for key in BY_KEY if key in texts}
