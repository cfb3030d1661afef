"""How each kind of annotation value is read and written: booleans, integers, lists, durations, JSON maps (SPEC §2).

A reader takes text and returns a value or raises Fault; a writer is its inverse. The table of annotations (`fields.py`)
is made of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from tensorfusion_iac.api.levels import Feature
from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.vendors import Vendor, parse_vendor

E = TypeVar("E", bound=StrEnum)

MAX_GPUS = 128
MAX_INT32 = 2**31 - 1

# The public forms are also the API server's: api/crd/forms.py puts them into the CRDs (RE2 understands them).
_WHOLE = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_DURATION = timedelta(days=365)
TEMPLATE = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb(\+(me|gfx|me\.all))?|[1-9]g\.[1-9][0-9]{0,2}gb-me")
MODEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._/+-]{0,61}[A-Za-z0-9._/+-])?")


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
        raise Fault(quote(text), "0, or a whole number from 2")
    return int(text)


def split_list(text: str) -> list[str]:
    """The items of a comma list, spaces around them ignored. Raises Fault for an empty list or an empty item."""
    items = [item.strip(" ") for item in text.split(",")]
    if not all(items):
        what = "a comma-separated list without empty items" if any(items) else "a comma-separated list of at least one item"
        raise Fault(quote(text), what)
    return items


def _distinct(text: str, items: list[str]) -> list[str]:
    twice = sorted({item for item in items if items.count(item) > 1})
    if twice:
        raise Fault(quote(text), "each once", "{found} names " + ", ".join(twice) + " more than once; give {accepted}")
    return items


@lru_cache(maxsize=1024)
def parse_containers(text: str) -> tuple[str, ...]:
    """Container names, each once."""
    names = _distinct(text, split_list(text))
    for name in names:
        if _LABEL.fullmatch(name) is None:
            raise Fault(quote(name), "a container name (lower-case letters, digits and -, at most 63)")
    return tuple(names)


@lru_cache(maxsize=1024)
def parse_indices(text: str) -> tuple[int, ...]:
    """GPU device indices, each once, at most 128 of them."""
    items = split_list(text)
    for item in items:
        if _WHOLE.fullmatch(item) is None or int(item) > MAX_INT32:
            raise Fault(
                quote(text),
                "a comma-separated list of whole numbers from 0",
                "{found} has " + quote(item).replace("{", "(").replace("}", ")") + "; give {accepted}",
            )
    _distinct(text, items)
    if len(items) > MAX_GPUS:
        raise Fault(f"{len(items)} indices", f"at most {MAX_GPUS}")
    return tuple(int(item) for item in items)


def write_list(values: Iterable[object]) -> str:
    """The text of a comma list."""
    return ",".join(str(value) for value in values)


@lru_cache(maxsize=256)
def parse_features(text: str) -> tuple[Feature, ...]:
    """Features to turn off, each once."""
    known = {item.value: item for item in Feature}
    names = _distinct(text, split_list(text))
    for name in names:
        if name not in known:
            raise Fault(quote(name), ", ".join(known), "{found} is not one of {accepted}")
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
        close = get_close_matches(text.casefold(), [item.value.casefold() for item in Vendor], 1)
        hint = next((f"; did you mean {item.value}?" for item in Vendor if close and item.value.casefold() == close[0]), "")
        raise Fault(quote(text), ", ".join(item.value for item in Vendor), "{found} is not one of {accepted}" + hint)
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
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION_PART.findall(text))
    if seconds > _MAX_DURATION.total_seconds():
        raise Fault(quote(text), "a duration of at most a year (8760h)")
    return timedelta(milliseconds=round(seconds * 1000))


def write_duration(value: timedelta) -> str:
    """The text of a duration: whole hours, minutes, seconds and milliseconds (`1h30m`)."""
    left_ms = round(value.total_seconds() * 1000)
    parts = []
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


@lru_cache(maxsize=1024)
def parse_container_counts(text: str) -> Mapping[str, int]:
    """A JSON object, container name -> whole number of GPUs (0..128), no name twice, at least one above 0."""

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in items]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Fault(quote(twice), "each container once", "{found} is a key more than once; name {accepted}")
        return dict(items)

    accepted = 'a JSON object of container names and whole numbers, such as {"trainer":3,"evaluator":1}'
    try:
        counts = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise Fault(quote(text), accepted) from None
    if not isinstance(counts, dict) or not counts:
        raise Fault(quote(text), accepted)
    for name, count in counts.items():
        if _LABEL.fullmatch(name) is None:
            raise Fault(quote(name), "a container name (lower-case letters, digits and -, at most 63)")
        if type(count) is not int or not 0 <= count <= MAX_GPUS:
            raise Fault(quote(f"{name}: {json.dumps(count)}"), f"a whole number of GPUs from 0 to {MAX_GPUS}")
    if not 0 < sum(counts.values()) <= MAX_GPUS:
        raise Fault(quote(text), f"from 1 to {MAX_GPUS} GPUs in all", "{found} is not {accepted}")
    return MappingProxyType(counts)


def write_container_counts(value: Mapping[str, int]) -> str:
    """The text of a container split, in the order given."""
    return json.dumps(dict(value), separators=(",", ":"))
