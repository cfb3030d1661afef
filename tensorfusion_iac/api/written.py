"""A Python value as the annotation text that it stands for: numbers, booleans, enums, lists, maps, durations (API.md).

Arguments take "the same strings (numbers and enums too where natural)"; this is the one rule for what is natural.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import Enum

from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.quantity import from_number
from tensorfusion_iac.api.values import write_duration

_BOOLS = {"is-local-gpu", "dedicated-gpu", "autoscale", "standalone-worker-mode"}
_LISTS = {"inject-container", "gpu-indices", "disable-features"}
_DURATIONS = {"eviction-protection", "gang-timeout"}
_NUMBERS = {
    "tflops-request", "tflops-limit", "vram-request", "vram-limit", "compute-percent-request", "compute-percent-limit",
    "gpu-count", "enabled-replicas", "gang-min-members", "gpu-indices",
}  # fmt: skip


def as_text(key: str, value: object) -> str:
    """The text that annotation `key` gets for `value`; the table's reader judges it next.

    Text stays as it is. Raises Fault for a value of a kind that this annotation does not take.
    """
    if isinstance(value, Enum):
        return as_text(key, value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        if key in _BOOLS:
            return "true" if value else "false"
        raise Fault(quote(value), "a boolean", "{found} is {accepted}, which this argument does not take")
    if key in _NUMBERS and isinstance(value, (int, float, Decimal)):
        return from_number(int(value) if isinstance(value, float) and value.is_integer() else value)
    if key in _DURATIONS and isinstance(value, timedelta):
        return write_duration(value)
    if key == "container-gpu-count" and isinstance(value, Mapping):
        return _counts(value)
    if key in _LISTS and isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return ",".join(as_text(key, item) for item in value)
    raise Fault(f"{quote(value)} ({type(value).__name__})", _kinds(key))


def _counts(value: Mapping[object, object]) -> str:
    counts = {str(name): int(n) if isinstance(n, float) and n.is_integer() else n for name, n in value.items()}
    try:
        return json.dumps(counts, separators=(",", ":"))
    except (TypeError, ValueError):
        raise Fault(quote(value), "a mapping of container names to whole numbers") from None


def _kinds(key: str) -> str:
    if key in _BOOLS:
        return "True, False or text"
    if key in _LISTS:
        return "a list or comma-separated text"
    if key in _DURATIONS:
        return "a timedelta or text such as 30m"
    if key == "container-gpu-count":
        return "a mapping of container names to whole numbers"
    return "a number or text" if key in _NUMBERS else "text"
