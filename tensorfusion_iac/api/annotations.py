"""Annotations of a pod, read into typed values with every problem and warning, and written back (SPEC §2).

This reads one source only and knows nothing of profiles, pools or quotas; `resolve.py` puts the sources together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION, ENABLED_LABEL, PREFIX, is_system_key
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import format_bytes, format_decimal

_CUT = len(PREFIX)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the annotations say: value by short key, the problems, and the warnings (which refuse nothing)."""

    values: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    forged: tuple[str, ...] = field(default=())


def annotation_naming(name: str) -> str:
    """How a manifest calls a field: the full annotation key; paths elsewhere stay as they are."""
    return PREFIX + name if name in BY_KEY else name


def parse_annotations(annotations: Mapping[str, object]) -> Parsed:
    """Read the `tensor-fusion.ai/` annotations among `annotations` (full keys, as in a manifest).

    Each value is judged by itself, then the values of this one source against each other. `forged` lists full keys that
    only the system may write; they are warned of, and never among the values.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    warnings: list[Problem] = []
    forged: list[str] = []
    for key, text in annotations.items():
        if not key.startswith(PREFIX):
            continue
        name = key[_CUT:]
        known = BY_KEY.get(name)
        if known is None:
            warnings.append(_unknown(key, name))
            if is_system_key(key):
                forged.append(key)
        elif type(text) is not str:
            problems.append(_not_text(name, text))
        elif not text or text.isspace():
            problems.append(Problem(name, quote(text), known.takes, "{found} is empty; give {accepted}, or leave it out"))
        else:
            try:
                values[name] = known.parse(text)
            except Fault as fault:
                problems.append(fault.at(name))
    problems += one_source_problems(values)
    return Parsed(values, tuple(problems), tuple(warnings), tuple(forged))


def write_annotations(values: Mapping[str, Any]) -> dict[str, str]:
    """Typed values by short key as annotations with full keys, in the table's order. The inverse of the parser."""
    return {PREFIX + key: row.write(values[key]) for key, row in BY_KEY.items() if values.get(key) is not None}


def one_source_problems(values: Mapping[str, Any]) -> list[Problem]:
    """What cannot stand together in one source, be it the annotations or a profile (same short keys)."""
    found: list[Problem] = []
    for side in ("request", "limit"):
        if f"tflops-{side}" in values and f"compute-percent-{side}" in values:
            found.append(
                Problem(
                    f"compute-percent-{side}",
                    format_decimal(values[f"compute-percent-{side}"]),
                    "one of the two",
                    f"{{found}} stands beside {{tflops-{side}}}; give {{accepted}}",
                )
            )
    for what, show in (("tflops", format_decimal), ("vram", format_bytes), ("compute-percent", format_decimal)):
        request, limit = values.get(f"{what}-request"), values.get(f"{what}-limit")
        if request is not None and limit is not None and limit < request:
            found.append(below_request(what, show(limit), show(request)))
    if values.get("dedicated-gpu"):
        amounts = [key for key in AMOUNTS if key in values]
        if amounts:
            found.append(
                Problem(
                    "dedicated-gpu", "true", "amounts or a dedicated card",
                    "{found} stands beside " + ", ".join(f"{{{key}}}" for key in amounts) + "; give {accepted}, not both",
                )
            )  # fmt: skip
    counts, count = values.get("container-gpu-count"), values.get("gpu-count")
    if counts is not None and count is not None and sum(counts.values()) != count:
        found.append(
            Problem(
                "gpu-count", str(count), str(sum(counts.values())),
                "{found} is not the sum of {container-gpu-count}, {accepted}; leave one of the two out",
            )
        )  # fmt: skip
    indices = values.get("gpu-indices")
    if indices is not None and count is not None and len(indices) < count:
        found.append(too_few_indices(len(indices), count))
    return found


def below_request(what: str, limit: str, request: str) -> Problem:
    """A limit below its request, `what` being `tflops`, `vram` or `compute-percent`."""
    return Problem(
        f"{what}-limit", limit, f"at least {request}",
        f"{{found}} is below {{{what}-request}} {request}; give {{accepted}}, or leave it out",
    )  # fmt: skip


def too_few_indices(have: int, count: int) -> Problem:
    """Fewer allowed devices than GPUs asked for."""
    return Problem(
        "gpu-indices",
        f"{have} indices",
        f"at least {count}",
        "{found} for {gpu-count} " + f"{count}; give {{accepted}}",
    )


def _not_text(name: str, value: object) -> Problem:
    kind = {bool: "a boolean", int: "a number", float: "a number", type(None): "null"}.get(type(value), "not text")
    return Problem(name, f"{value} ({kind})"[:120], "text, in quotes", "{found}: Kubernetes annotations are {accepted}")


def _unknown(key: str, name: str) -> Problem:
    if is_system_key(key):
        return Problem(key, "set by hand", "written by the system only", "{found}, but {accepted}; the value is dropped")
    if key == ENABLED_LABEL:
        return Problem(key, "an annotation", f'the label {ENABLED_LABEL}: "true"', "{found} turns nothing on; use {accepted}")
    if key == DEFAULT_POOL_ANNOTATION:
        return Problem(key, "on a pod", "on a GPUPool", "{found} says nothing; it belongs {accepted}")
    close = get_close_matches(name, BY_KEY, n=1, cutoff=0.6)
    accepted = f"did you mean {PREFIX}{close[0]}?" if close else "see the list of annotations"
    return Problem(key, "unknown annotation", accepted, "{found}, ignored; {accepted}")
