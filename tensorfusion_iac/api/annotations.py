"""Annotations of a pod, read into typed values with every problem and warning, and written back (SPEC §2).

This reads one source only and knows nothing of profiles, pools or quotas; `resolve.py` puts the sources together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY, Field
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION, ENABLED_LABEL, PREFIX, is_system_key
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import format_decimal

_BY_FULL_KEY = {PREFIX + key: row for key, row in BY_KEY.items()}
_MAX_NAME = 63  # characters of a key after its prefix, in Kubernetes; a longer one is like no name of ours
_MAX_WARNINGS, _MAX_GUESSES = 50, 20  # of one object


class Parsed(NamedTuple):
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
    unknown: list[str] = []
    for key, text in annotations.items():
        row = _BY_FULL_KEY.get(key)
        if row is not None:
            try:
                values[row.key] = read_value(row, text)
            except Fault as fault:
                problems.append(fault.at(row.key))
        elif isinstance(key, str) and key.startswith(PREFIX):
            unknown.append(key)
    problems += one_source_problems(values)
    if not unknown:
        return Parsed(values, tuple(problems))
    forged = tuple(key for key in unknown if is_system_key(key))
    return Parsed(values, tuple(problems), tuple(_warnings(unknown)), forged)


def read_value(row: Field, text: object) -> Any:
    """The typed value of one annotation. Raises Fault, for what is no text or blank too."""
    if not isinstance(text, str):
        kind = {bool: "a boolean", int: "a number", float: "a number", type(None): "null"}.get(type(text), "not text")
        raise Fault(f"{quote(text)} ({kind})", "text, in quotes", "{found}: Kubernetes annotations are {accepted}")
    try:
        return row.parse(text)
    except Fault:
        if text and not text.isspace():
            raise
    raise Fault(quote(text), row.takes, "{found} is empty; it takes {accepted}; or leave it out")


def write_annotations(values: Mapping[str, Any]) -> dict[str, str]:
    """Typed values by short key as annotations with full keys, in the table's order. The inverse of the parser."""
    return {PREFIX + key: row.write(values[key]) for key, row in BY_KEY.items() if values.get(key) is not None}


def one_source_problems(values: Mapping[str, Any]) -> list[Problem]:
    """What cannot stand together in one source, be it the annotations or a profile (same short keys)."""
    found = []
    for key, check in _CHECKS:
        if key in values and (problem := check(values)) is not None:
            found.append(problem)
    return found


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


def _warnings(unknown: Sequence[str]) -> Iterator[Problem]:
    """One for each of the first keys, a guess only for the very first: a guess takes long. Of the rest, how many there are."""
    for position, key in enumerate(unknown[:_MAX_WARNINGS]):
        yield _unknown(key, BY_KEY if position < _MAX_GUESSES else ())
    more = len(unknown) - _MAX_WARNINGS
    if more > 0:
        message = "{found} are not known, or written by the system only; they say nothing; {accepted}"
        yield Problem("metadata.annotations", f"{more} more keys of {PREFIX}", "see the list of annotations", message)


def _unknown(key: str, guesses: Collection[str]) -> Problem:
    if is_system_key(key):
        return Problem(key, "set by hand", "written by the system only", "{found}, but {accepted}; the value is dropped")
    if key == ENABLED_LABEL:
        return Problem(key, "an annotation", f'the label {ENABLED_LABEL}: "true"', "{found} turns nothing on; use {accepted}")
    if key == DEFAULT_POOL_ANNOTATION:
        return Problem(key, "on a pod", "on a GPUPool", "{found} says nothing; it belongs {accepted}")
    name = key.removeprefix(PREFIX).casefold()
    close = get_close_matches(name, guesses, n=1) if len(name) <= _MAX_NAME else []
    accepted = f"did you mean {PREFIX}{close[0]}?" if close else "see the list of annotations"
    return Problem(key, "unknown annotation", accepted, "{found}, ignored; {accepted}")


def _two_units(side: str) -> Callable[[Mapping[str, Any]], Problem | None]:
    tflops, percent = f"tflops-{side}", f"compute-percent-{side}"

    def check(values: Mapping[str, Any]) -> Problem | None:
        if tflops not in values:
            return None
        message = f"{{found}} stands beside {{{tflops}}}; give {{accepted}}"
        return Problem(percent, format_decimal(values[percent]), "one of the two", message)

    return check


def _limit_below_request(what: str) -> Callable[[Mapping[str, Any]], Problem | None]:
    request_key, limit_key = f"{what}-request", f"{what}-limit"
    show = BY_KEY[limit_key].write

    def check(values: Mapping[str, Any]) -> Problem | None:
        request, limit = values.get(request_key), values[limit_key]
        return below_request(what, show(limit), show(request)) if request is not None and limit < request else None

    return check


def _amounts_of_a_dedicated_card(values: Mapping[str, Any]) -> Problem | None:
    amounts = [f"{{{key}}}" for key in AMOUNTS if key in values]
    if not values["dedicated-gpu"] or not amounts:
        return None
    message = f"{{found}} stands beside {', '.join(amounts)}; give {{accepted}}, not both"
    return Problem("dedicated-gpu", "true", "amounts or a dedicated card", message)


def _counts_that_differ(values: Mapping[str, Any]) -> Problem | None:
    count, total = values.get("gpu-count"), sum(values["container-gpu-count"].values())
    if count is None or count == total:
        return None
    message = "{found} is not the sum of {container-gpu-count}, {accepted}; leave one of the two out"
    return Problem("gpu-count", str(count), str(total), message)


def _fewer_indices_than_gpus(values: Mapping[str, Any]) -> Problem | None:
    have = len(values["gpu-indices"])
    count = values.get("gpu-count") or sum(values.get("container-gpu-count", {}).values())
    return too_few_indices(have, count) if have < count else None


def _a_template_without_partitions(values: Mapping[str, Any]) -> Problem | None:
    isolation = values.get("isolation")
    if isolation is None or isolation is Isolation.PARTITIONED:
        return None
    return template_needs_partitions(values["partition-template"], isolation)


def _a_gang_of_one(values: Mapping[str, Any]) -> Problem | None:
    # An annotation's reader has refused it already; in a profile the field is a plain number.
    one = values["gang-min-members"] == 1
    return Problem("gang-min-members", "1", "0, or a whole number from 2") if one else None


_CHECKS: tuple[tuple[str, Callable[[Mapping[str, Any]], Problem | None]], ...] = (
    ("compute-percent-request", _two_units("request")),
    ("compute-percent-limit", _two_units("limit")),
    ("tflops-limit", _limit_below_request("tflops")),
    ("vram-limit", _limit_below_request("vram")),
    ("compute-percent-limit", _limit_below_request("compute-percent")),
    ("dedicated-gpu", _amounts_of_a_dedicated_card),
    ("container-gpu-count", _counts_that_differ),
    ("gpu-indices", _fewer_indices_than_gpus),
    ("partition-template", _a_template_without_partitions),
    ("gang-min-members", _a_gang_of_one),
)
"""A check is made only where its key has a value."""
