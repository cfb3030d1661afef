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
_SPLITS = {"container-gpu-count"}
_NUMBERS = {
    "tflops-request", "tflops-limit", "vram-request", "vram-limit", "compute-percent-request", "compute-percent-limit",
    "gpu-count", "enabled-replicas", "gang-min-members", "gpu-indices",
}  # fmt: skip


def as_text(key: str, value: object) -> str:
    """The text that annotation `key` gets for `value`; the table's reader judges it next.

    Text stays as it is. Raises Fault for a value of a kind that this annotation does not take.
    """
    if key in _LISTS and isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return ",".join(_item(key, item) for item in value)
    if key in _SPLITS and isinstance(value, Mapping):
        return _split(value)
    return _scalar(key, value)


def _scalar(key: str, value: object) -> str:
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, str):
        return value
    if isinstance(value, bool) and key in _BOOLS:
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and key in _NUMBERS:
        return from_number(value)
    if isinstance(value, timedelta) and key in _DURATIONS:
        if value < timedelta(0):
            raise Fault(f"{value.total_seconds():g}s", "a duration from 0")
        return write_duration(value)
    raise Fault(quote(value), _kinds(key), "{found} is not taken here; give {accepted}")


def _item(key: str, item: object) -> str:
    text = _scalar(key, item)
    if "," in text:
        raise Fault(quote(text), "each item by itself", "{found} is one item with a comma in it; give {accepted}")
    return text


def _split(value: Mapping[object, object]) -> str:
    counts = {str(name): int(n) if isinstance(n, float) and n.is_integer() else n for name, n in value.items()}
    try:
        return json.dumps(counts, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise Fault("a mapping with values that are no numbers", "container names and whole numbers") from None


def _kinds(key: str) -> str:
    if key in _BOOLS:
        return "True, False or text"
    if key in _LISTS:
        return "a list or comma-separated text"
    if key in _DURATIONS:
        return "a timedelta or text such as 30m"
    if key in _SPLITS:
        return "a mapping of container names to whole numbers"
    return "a number or text" if key in _NUMBERS else "text"
