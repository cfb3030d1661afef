"""Annotations of a pod, read into typed values with every problem and warning, and written back (SPEC §2).

This reads one source only and knows nothing of profiles, pools or quotas; `resolve.py` puts the sources together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY, Field
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION, ENABLED_LABEL, PREFIX, is_system_key
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import format_bytes, format_decimal

_CUT = len(PREFIX)
_MAX_NAME = 63  # characters of a key after its prefix, in Kubernetes; a longer one is like no name of ours


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the annotations say: values by short key, the problems, and the warnings (which refuse nothing).

    `forged` lists full keys that only the system may write; they are warned of, and never among the values.
    """

    values: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    forged: tuple[str, ...] = ()


def annotation_naming(name: str) -> str:
    """How a manifest calls a field: the full annotation key; paths elsewhere stay as they are."""
    return PREFIX + name if name in BY_KEY else name


def parse_annotations(annotations: Mapping[str, object]) -> Parsed:
    """Read the `tensor-fusion.ai/` annotations among `annotations` (full keys, as in a manifest).

    Each value is judged by itself, then the values of this one source against each other.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for key, text in annotations.items():
        if type(key) is not str or not key.startswith(PREFIX):
            continue
        row = BY_KEY.get(key[_CUT:])
        if row is None:
            warnings.append(_unknown(key))
            continue
        try:
            values[row.key] = read_value(row, text)
        except Fault as fault:
            problems.append(fault.at(row.key))
    problems += one_source_problems(values)
    forged = tuple(warning.field for warning in warnings if is_system_key(warning.field))
    return Parsed(values, tuple(problems), tuple(warnings), forged)


def read_value(row: Field, text: object) -> Any:
    """The typed value of one annotation. Raises Fault, for what is no text or blank too."""
    if type(text) is not str:
        kind = {bool: "a boolean", int: "a number", float: "a number", type(None): "null"}.get(type(text), "not text")
        raise Fault(f"{quote(text)} ({kind})", "text, in quotes", "{found}: Kubernetes annotations are {accepted}")
    if not text or text.isspace():
        raise Fault(quote(text), row.takes, "{found} is empty; it takes {accepted}; or leave it out")
    return row.parse(text)


def write_annotations(values: Mapping[str, Any]) -> dict[str, str]:
    """Typed values by short key as annotations with full keys, in the table's order. The inverse of the parser."""
    return {PREFIX + key: row.write(values[key]) for key, row in BY_KEY.items() if values.get(key) is not None}


def one_source_problems(values: Mapping[str, Any]) -> list[Problem]:
    """What cannot stand together in one source, be it the annotations or a profile (same short keys)."""
    return [
        *_two_units(values),
        *_limits_below_requests(values),
        *_amounts_of_a_dedicated_card(values),
        *_counts_that_differ(values),
        *_a_template_without_partitions(values),
        *_a_gang_of_one(values),
    ]


def below_request(what: str, limit: str, request: str) -> Problem:
    """A limit below its request, `what` being `tflops`, `vram` or `compute-percent`."""
    message = f"{{found}} is below {{{what}-request}} {request}; give {{accepted}}, or leave it out"
    return Problem(f"{what}-limit", limit, f"at least {request}", message)


def too_few_indices(have: int, count: int) -> Problem:
    """Fewer allowed devices than GPUs asked for."""
    found = f"{have} {'index' if have == 1 else 'indices'}"
    return Problem("gpu-indices", found, f"at least {count}", f"{{found}} for {{gpu-count}} {count}; give {{accepted}}")


def template_needs_partitions(template: str, isolation: Isolation) -> Problem:
    """A MIG profile where no partition will be made."""
    message = f"{{found}} needs {{isolation}}: partitioned, and it is {isolation.value}; leave one of the two out"
    return Problem("partition-template", quote(template), "isolation: partitioned", message)


def _unknown(key: str) -> Problem:
    if is_system_key(key):
        return Problem(key, "set by hand", "written by the system only", "{found}, but {accepted}; the value is dropped")
    if key == ENABLED_LABEL:
        return Problem(key, "an annotation", f'the label {ENABLED_LABEL}: "true"', "{found} turns nothing on; use {accepted}")
    if key == DEFAULT_POOL_ANNOTATION:
        return Problem(key, "on a pod", "on a GPUPool", "{found} says nothing; it belongs {accepted}")
    name = key[_CUT:].casefold()
    close = get_close_matches(name, BY_KEY, n=1) if len(name) <= _MAX_NAME else []
    accepted = f"did you mean {PREFIX}{close[0]}?" if close else "see the list of annotations"
    return Problem(key, "unknown annotation", accepted, "{found}, ignored; {accepted}")


def _two_units(values: Mapping[str, Any]) -> Iterator[Problem]:
    for side in ("request", "limit"):
        percent = values.get(f"compute-percent-{side}")
        if percent is not None and f"tflops-{side}" in values:
            message = f"{{found}} stands beside {{tflops-{side}}}; give {{accepted}}"
            yield Problem(f"compute-percent-{side}", format_decimal(percent), "one of the two", message)


def _limits_below_requests(values: Mapping[str, Any]) -> Iterator[Problem]:
    for what, show in (("tflops", format_decimal), ("vram", format_bytes), ("compute-percent", format_decimal)):
        request, limit = values.get(f"{what}-request"), values.get(f"{what}-limit")
        if request is not None and limit is not None and limit < request:
            yield below_request(what, show(limit), show(request))


def _amounts_of_a_dedicated_card(values: Mapping[str, Any]) -> Iterator[Problem]:
    amounts = [f"{{{key}}}" for key in AMOUNTS if key in values]
    if values.get("dedicated-gpu") and amounts:
        message = f"{{found}} stands beside {', '.join(amounts)}; give {{accepted}}, not both"
        yield Problem("dedicated-gpu", "true", "amounts or a dedicated card", message)


def _counts_that_differ(values: Mapping[str, Any]) -> Iterator[Problem]:
    count, split, indices = values.get("gpu-count"), values.get("container-gpu-count"), values.get("gpu-indices")
    total = None if split is None else sum(split.values())
    if count is not None and total is not None and total != count:
        message = "{found} is not the sum of {container-gpu-count}, {accepted}; leave one of the two out"
        yield Problem("gpu-count", str(count), str(total), message)
    wanted = count if count is not None else total
    if indices is not None and wanted is not None and len(indices) < wanted:
        yield too_few_indices(len(indices), wanted)


def _a_template_without_partitions(values: Mapping[str, Any]) -> Iterator[Problem]:
    template, isolation = values.get("partition-template"), values.get("isolation")
    if template is not None and isolation is not None and isolation is not Isolation.PARTITIONED:
        yield template_needs_partitions(template, isolation)


def _a_gang_of_one(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values.get("gang-min-members") == 1:  # an annotation's reader has refused it; a profile's field is a plain number
        yield Problem("gang-min-members", "1", "0, or a whole number from 2")
