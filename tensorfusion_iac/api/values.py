"""How each kind of annotation value is read and written: booleans, integers, lists, durations, JSON maps (SPEC §2).

A reader takes text and returns a value or raises Fault; a writer is its inverse. The table of annotations (`fields.py`)
is made of these.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from tensorfusion_iac.api.levels import Feature
from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.vendors import Vendor, parse_vendor

E = TypeVar("E", bound=StrEnum)

_CONTAINER = "a container name (lower-case letters, digits and -, at most 63)"
MAX_GPUS = 128
MAX_INT32 = 2**31 - 1

# The public forms are also the API server's: api/crd/forms.py puts them into the CRDs (RE2 understands them).
_WHOLE = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_MAX_DURATION_MS = 365 * 24 * _UNIT_MS["h"]
TEMPLATE = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb(\+(me|gfx|me\.all))?|[1-9]g\.[1-9][0-9]{0,2}gb-me")
MODEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._/+()-]{0,61}[A-Za-z0-9._/+()-])?")


def parse_bool(text: str) -> bool:
    """`true` or `false`, nothing else."""
    if text == "true":
        return True
    if text == "false":
        return False
    raise Fault(quote(text), "true or false")


def write_bool(value: bool) -> str:
    """The text of a boolean."""
    return "true" if value else "false"


def enum_parser(kind: type[E]) -> Callable[[str], E]:
    """A reader of a closed set of words."""
    words: Mapping[str, E] = {item.value: item for item in kind}
    accepted = ", ".join(words)

    def parse(text: str) -> E:
        value = words.get(text)
        if value is None:
            raise Fault(quote(text), accepted, "{found} is not one of {accepted}")
        return value

    return parse


def int_parser(low: int, high: int) -> Callable[[str], int]:
    """A reader of a whole number in `low..high`, ASCII digits only."""

    @lru_cache(maxsize=256)
    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None or not low <= int(text) <= high:
            raise Fault(quote(text), f"a whole number from {low} to {high}")
        return int(text)

    return parse


def parse_gang_members(text: str) -> int:
    """0 (no gang) or at least 2."""
    if _WHOLE.fullmatch(text) is None or int(text) == 1 or int(text) > MAX_INT32:
        raise Fault(quote(text), f"0, or a whole number from 2 to {MAX_INT32}")
    return int(text)


def split_list(text: str) -> list[str]:
    """The items of a comma list, spaces around them ignored. Raises Fault for an empty list or an empty item."""
    items = [item.strip(" ") for item in text.split(",")]
    if not all(items):
        what = "a comma-separated list without empty items" if any(items) else "a comma-separated list of at least one item"
        raise Fault(quote(text), what)
    return items


def _each(items: list[str], good: Callable[[str], object], accepted: str) -> None:
    """Raises Fault with every item that is not `good`, or else with those that stand there twice."""
    bad = [item for item in dict.fromkeys(items) if not good(item)]
    if bad:
        raise Fault(", ".join(quote(item) for item in bad), accepted, "{found}: not {accepted}")
    if len(set(items)) < len(items):
        twice = [item for item, times in Counter(items).items() if times > 1]
        raise Fault(", ".join(twice), "each once", "{found} stands in the list more than once; give {accepted}")


@lru_cache(maxsize=1024)
def parse_containers(text: str) -> tuple[str, ...]:
    """Container names, each once."""
    names = split_list(text)
    _each(names, _LABEL.fullmatch, _CONTAINER)
    return tuple(names)


@lru_cache(maxsize=1024)
def parse_indices(text: str) -> tuple[int, ...]:
    """GPU device indices, each once, at most 128 of them."""
    items = split_list(text)
    _each(items, _is_index, "device indices (whole numbers from 0)")
    if len(items) > MAX_GPUS:
        raise Fault(f"{len(items)} indices", f"at most {MAX_GPUS}")
    return tuple(int(item) for item in items)


def _is_index(item: str) -> bool:
    return _WHOLE.fullmatch(item) is not None and int(item) <= MAX_INT32


def write_list(values: Iterable[object]) -> str:
    """The text of a comma list."""
    return ",".join(str(value) for value in values)


@lru_cache(maxsize=256)
def parse_features(text: str) -> tuple[Feature, ...]:
    """Features to turn off, each once."""
    known: dict[str, Feature] = {item.value: item for item in Feature}
    names = split_list(text)
    _each(names, known.get, f"one of {', '.join(known)}")
    return tuple(known[name] for name in names)


@lru_cache(maxsize=1024)
def parse_name(text: str) -> str:
    """The name of a Kubernetes object (a DNS subdomain of at most 253 characters)."""
    if len(text) > 253 or SUBDOMAIN.fullmatch(text) is None:
        raise Fault(quote(text), "an object name (lower-case letters, digits, - and ., at most 253)")
    return text


@lru_cache(maxsize=1024)
def parse_label_name(text: str) -> str:
    """The name of an object that is also used as a label value (at most 63 characters)."""
    if len(text) > 63:
        raise Fault(quote(text), "an object name of at most 63 characters, since it is also a label value")
    return parse_name(text)


@lru_cache(maxsize=256)
def parse_vendor_name(text: str) -> Vendor:
    """A vendor, any case; MooreThreads is an alias of MThreads."""
    vendor = parse_vendor(text)
    if vendor is None:
        spelled = {item.value.casefold(): item.value for item in Vendor}
        close = get_close_matches(text[:32].casefold(), spelled, n=1)
        hint = f"; did you mean {spelled[close[0]]}?" if close else ""
        raise Fault(quote(text), ", ".join(Vendor), "{found} is not one of {accepted}" + hint)
    return vendor


@lru_cache(maxsize=1024)
def parse_model(text: str) -> str:
    """A GPU model or family, kept as written; whether any card has it is judged when the pod is placed."""
    if MODEL.fullmatch(text) is None:
        raise Fault(quote(text), "a GPU model or family such as A100, L40s or H100_SXM")
    return text


@lru_cache(maxsize=256)
def parse_template(text: str) -> str:
    """A MIG profile name."""
    if TEMPLATE.fullmatch(text) is None:
        raise Fault(quote(text), "a MIG profile name such as 1g.10gb or 3g.40gb")
    return text


@lru_cache(maxsize=256)
def parse_duration(text: str) -> timedelta:
    """A duration in Go's form: `30m`, `1h30m`, `90s`; at most a year, exact to a millisecond."""
    if text == "0":
        return timedelta(0)
    if DURATION.fullmatch(text) is None or len(text) > 32:
        raise Fault(quote(text), "a duration such as 30m, 90s or 1h30m")
    exact_ms = sum(Decimal(number) * _UNIT_MS[unit] for number, unit in _DURATION_PART.findall(text))
    if exact_ms > _MAX_DURATION_MS:
        raise Fault(quote(text), "a duration of at most a year (8760h)")
    return timedelta(milliseconds=round(exact_ms))


def write_duration(value: timedelta) -> str:
    """The text of a duration: whole hours, minutes, seconds and milliseconds (`1h30m`)."""
    left_ms = round(value / timedelta(milliseconds=1))
    parts = []
    for unit, size_ms in _UNIT_MS.items():
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


@lru_cache(maxsize=1024)
def parse_container_counts(text: str) -> Mapping[str, int]:
    """A JSON object, container name -> whole number of GPUs (0..128), no name twice, at least one above 0."""
    accepted = 'a JSON object of container names and whole numbers, such as {"trainer":3,"evaluator":1}'
    try:
        counts = json.loads(text, object_pairs_hook=_distinct_keys)
    except (ValueError, RecursionError):
        raise Fault(quote(text), accepted) from None
    if not isinstance(counts, dict) or not counts:
        raise Fault(quote(text), accepted)
    _each(list(counts), _LABEL.fullmatch, _CONTAINER)
    bad = [f"{quote(count)} for {name}" for name, count in counts.items() if type(count) is not int or not 0 <= count <= MAX_GPUS]
    if bad:
        raise Fault(", ".join(bad), f"a whole number of GPUs from 0 to {MAX_GPUS}", "{found}: not {accepted}")
    if not 0 < sum(counts.values()) <= MAX_GPUS:
        raise Fault(quote(text), f"from 1 to {MAX_GPUS} GPUs in all")
    return MappingProxyType(counts)


def _distinct_keys(items: list[tuple[str, object]]) -> dict[str, object]:
    twice = [name for name, times in Counter(name for name, _ in items).items() if times > 1]
    if twice:
        found = ", ".join(quote(name) for name in twice)
        raise Fault(found, "each container once", "{found} is a key more than once; name {accepted}")
    return dict(items)


def write_container_counts(value: Mapping[str, int]) -> str:
    """The text of a container split, in the order given."""
    return json.dumps(dict(value), separators=(",", ":"))
