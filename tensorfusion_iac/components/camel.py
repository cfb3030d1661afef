"""Arguments as a manifest would spell them: Args classes and snake_case keys become camelCase mappings.

Pulumi's Kubernetes arguments come as Args classes, as dictionaries with Python names, or as manifests spell them. Decisions
read one form only. The SDK's own type metadata says which keys are names of fields and which are the user's (labels).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args, get_origin

from pulumi import _types as types  # what pulumi itself translates names with; there is no public door to it

from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.components.inputs import is_deferred


def camel(value: Any, kind: Any = None) -> Any:
    """`value`, an argument of type `kind` (an Args class), as camelCase mappings and lists; Outputs stay as they are."""
    if value is None or isinstance(value, (str, bool, int, float)) or is_deferred(value):
        return value
    cls: Any = type(value)
    if types.is_input_type(cls):
        fields = _types_of(cls)
        return {key: camel(item, fields.get(key)) for key, item in types.input_type_to_dict(value).items()}
    if isinstance(value, Mapping):
        return _mapping(value, _unwrapped(kind))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        item_kind = _item_of(_unwrapped(kind))
        return [camel(item, item_kind) for item in value]
    return value


def _mapping(value: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and types.is_input_type(kind):
        names, fields = _names_of(kind), _types_of(kind)
        pairs = ((names.get(key, key), item) for key, item in value.items())
        return {key: camel(item, fields.get(key)) for key, item in pairs if item is not None}
    arguments = get_args(kind)
    item_kind = arguments[1] if len(arguments) == 2 and get_origin(kind) is not None else None
    return {key: camel(item, item_kind) for key, item in value.items()}


def spelled_twice(value: Any, kind: Any, path: str) -> list[Problem]:
    """A problem for each field that a mapping of `value`, an argument of type `kind`, holds in both spellings."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        item_kind = _item_of(_unwrapped(kind))
        return [found for index, item in enumerate(value) for found in spelled_twice(item, item_kind, f"{path}[{index}]")]
    cls: Any = type(value)
    if types.is_input_type(cls):
        value, kind = {key: item for key, item in types.input_type_to_dict(value).items() if item is not None}, cls
    kind = _unwrapped(kind)
    if not isinstance(value, Mapping) or not (isinstance(kind, type) and types.is_input_type(kind)):
        return []
    names, fields = _names_of(kind), _types_of(kind)
    found: list[Problem] = []
    for key, item in value.items():
        if item is None:
            continue
        name = str(names.get(key, key))
        if name != key and value.get(name) is not None:
            found.append(Problem(f"{path}.{name}", f"{key} beside {name}", "one of the two", "{found}; give {accepted}"))
        found += spelled_twice(item, fields.get(name), f"{path}.{name}")
    return found


@lru_cache(maxsize=1024)
def _types_of(kind: Any) -> dict[str, Any]:
    return dict(types.input_type_types(kind))


@lru_cache(maxsize=1024)
def _names_of(kind: Any) -> dict[str, str]:
    return types.input_type_py_to_pulumi_names(kind)


def _unwrapped(kind: Any) -> Any:
    return types.unwrap_type(kind) if kind is not None else None


def _item_of(kind: Any) -> Any:
    arguments = get_args(kind)
    return arguments[0] if len(arguments) == 1 else None
