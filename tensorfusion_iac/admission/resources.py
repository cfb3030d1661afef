"""`judge_resource`: our custom resources at creation and change, beyond what their schema and rules can say (SPEC §4).

What rests on another object is a warning, since one `up` may create both, in any order; what can never be read is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import available_timezones

from tensorfusion_iac.admission.decision import Decision, refused, warning_texts
from tensorfusion_iac.api import GPUPool, GPUResourceQuota, Problem
from tensorfusion_iac.api.check import check_resource
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION
from tensorfusion_iac.api.problem import quote
from tensorfusion_iac.api.resources.quota import QuotaSingle

_HAS_POOL = ("WorkloadProfile", "TensorFusionWorkload")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The names that matter to an object: all pools, those marked as default, and the quotas of its namespace."""

    pools: Collection[str] = ()
    default_pools: Collection[str] = ()
    quotas: Collection[str] = ()


def judge_resource(raw: object, neighbours: Neighbours, old: object = None) -> Decision:
    """Decide about an object of our group (raw JSON). Never raises. No patch.

    `old` is what it replaces, if anything: where the spec and the annotations are the same, nothing is refused, so that an
    object of an older version can still lose a finalizer or gain a label.
    """
    problems, warnings = check_resource(raw)
    if isinstance(raw, Mapping):
        problems = [*problems, *_unreadable(raw)]
        warnings = [*warnings, *_beside(raw, neighbours)]
    subject = _subject(raw)
    if problems and not _same_spec(raw, old):
        return refused(subject, problems, warning_texts(warnings))
    return Decision(True, warnings=warning_texts(warnings), subject=subject)


def _unreadable(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Time zones are not in any schema; a machine without their list judges none."""
    if raw.get("kind") not in _HAS_POOL:
        return
    rules = _at(raw, "spec", "autoScalingConfig", "cronScalingRules")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        zone = rule.get("timeZone") if isinstance(rule, Mapping) else None
        if isinstance(zone, str) and zone and (known := available_timezones()) and zone not in known:
            field = f"spec.autoScalingConfig.cronScalingRules[{index}].timeZone"
            yield Problem(field, quote(zone), "an IANA time zone such as Europe/Berlin")


def _beside(raw: Mapping[str, Any], neighbours: Neighbours) -> Iterator[Problem]:
    kind, name = raw.get("kind"), _at(raw, "metadata", "name")
    if kind in _HAS_POOL:
        pool = _at(raw, "spec", "poolName")
        if isinstance(pool, str) and pool and pool not in neighbours.pools:
            accepted = ", ".join(sorted(neighbours.pools)) or "(none exist)"
            message = "{found} does not exist yet; its pods are refused until it does; the pools are {accepted}"
            yield Problem("spec.poolName", quote(pool), accepted, message)
    if kind == GPUPool.KIND.kind and _at(raw, "metadata", "annotations", DEFAULT_POOL_ANNOTATION) == "true":
        others = sorted(pool for pool in neighbours.default_pools if pool != name)
        if others:
            message = "{found} are marked too; pods that name no pool are refused until one is left; unmark {accepted}"
            yield Problem(f"annotation {DEFAULT_POOL_ANNOTATION}", ", ".join(others), "them, or this one", message)
    if kind == GPUResourceQuota.KIND.kind:
        others = sorted(quota for quota in neighbours.quotas if quota != name)
        if others:
            message = "a second quota in the namespace beside {found}; the oldest holds: {accepted}"
            yield Problem("metadata.name", ", ".join(others), "change that one, or delete it", message)
        yield from _defaults_above_ceilings(raw)


def _defaults_above_ceilings(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """A namespace whose own default is above its own ceiling refuses every pod that names no amount."""
    try:
        single = GPUResourceQuota.model_validate({"spec": raw.get("spec")}).spec.single or QuotaSingle()
    except ValueError:  # it has been reported by its schema
        return
    for side, default, ceiling in (
        ("Requests", single.default_requests, single.max_requests),
        ("Limits", single.default_limits, single.max_limits),
    ):
        for what in ("tflops", "vram", "compute"):
            given, most = getattr(default, what, None), getattr(ceiling, what, None)
            if given is not None and most is not None and given > most:
                message = (
                    f"{{found}} is above spec.single.max{side}.{what}: pods that name no amount are refused; give {{accepted}}"
                )
                yield Problem(f"spec.single.default{side}.{what}", str(given), f"at most {most}", message)


def _same_spec(raw: object, old: object) -> bool:
    if not isinstance(raw, Mapping) or not isinstance(old, Mapping):
        return False
    annotations = [_at(item, "metadata", "annotations") for item in (raw, old)]
    return bool(raw.get("spec") == old.get("spec") and annotations[0] == annotations[1])


def _subject(raw: object) -> str:
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    namespace, name = _at(raw, "metadata", "namespace"), _at(raw, "metadata", "name")
    return f"{kind} {f'{namespace}/' if namespace else ''}{name or _at(raw, 'metadata', 'generateName')}"


def _at(node: object, *path: str) -> Any:
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    return node
