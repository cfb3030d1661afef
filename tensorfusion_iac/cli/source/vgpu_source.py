"""`tfi.VGPU(...)` from annotations and from a profile's spec: the value as a program would write it, if it means the same.

A number stays a number only if the component writes it back as the very text that stood in the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY, FIELDS
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.cli.source.literals import Call
from tensorfusion_iac.cli.source.spec_fields import get, take

_KEPT_AS_TEXT = (*AMOUNTS, "gpu-model", "partition-template", "gang-timeout")


def vgpu_call(values: Mapping[str, Any]) -> Call:
    """The call, from values by short annotation key."""
    return Call("tfi.VGPU", (), {row.argument: values[row.key] for row in FIELDS if row.key in values})


def natural(key: str, text: str) -> Any:
    """The Python value that becomes exactly `text` in annotation `key`: a number, a boolean, a list, a mapping; else the text."""
    for value in _candidates(text):
        try:
            if not isinstance(value, str) and as_text(key, value) == text:
                return value
        except Fault:
            continue
    return text


def _candidates(text: str) -> Iterator[Any]:
    if text in ("true", "false"):
        yield text == "true"
    with suppress(ValueError):
        yield int(text)
    with suppress(ValueError):
        yield float(text)
    if text.startswith("{"):
        with suppress(ValueError):
            yield json.loads(text)
    items = text.split(",")
    if all(item.isascii() and item.isdigit() for item in items):
        yield [int(item) for item in items]
    yield items


def take_annotations(annotations: dict[str, str]) -> dict[str, Any]:
    """Take the user's annotations out of a map: values by short key."""
    found = {}
    for key in list(annotations):
        name = key[len(PREFIX) :] if key.startswith(PREFIX) else ""
        if name in BY_KEY:
            found[name] = natural(name, annotations.pop(key))
    return found


def take_profile_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """Take what a VGPU says exactly out of a profile's spec: values by short key. The rest stays."""
    found = {}
    for row in FIELDS:
        if row.profile is None or row.key == "gpupool":
            continue
        path = tuple(row.profile.split("."))
        value = get(spec, path)
        if value is not None and _written(row.key, value) == value:
            take(spec, path)
            found[row.key] = natural(row.key, value) if isinstance(value, str) else value
    return found


def _written(key: str, value: Any) -> Any:
    """What the component would write for `value`: see components/workload_spec.py."""
    try:
        text = as_text(key, value)
        parsed = BY_KEY[key].parse(text)
    except Fault:
        return None
    if key in _KEPT_AS_TEXT:
        return text if type(value) is str else None
    if isinstance(parsed, tuple):
        return [str(item) if isinstance(item, str) else item for item in parsed]
    plain = str(parsed) if isinstance(parsed, str) else parsed
    return plain if type(plain) is type(value) else None
