"""A custom resource's spec as its manifest spells it: Python names become camelCase, by the models' own aliases.

Takes mappings in either spelling and the pydantic models of `api`; leaves may be Outputs. Keys that no field has stay as
they are, so that validation can name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel

from tensorfusion_iac.components.inputs import is_deferred


def spelled(value: Any, model: type[BaseModel] | None) -> Any:
    """`value`, which stands for a `model`, as a manifest spells it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if is_deferred(value):
        return value
    if isinstance(value, Mapping):
        if model is None:
            return {str(key): spelled(item, None) for key, item in value.items()}
        names, inner = _fields(model)
        pairs = ((names.get(str(key), str(key)), item) for key, item in value.items() if item is not None)
        return {key: spelled(item, inner.get(key)) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [spelled(item, model) for item in value]
    return value.value if isinstance(value, Enum) else value


@lru_cache(maxsize=256)
def _fields(model: type[BaseModel]) -> tuple[dict[str, str], dict[str, type[BaseModel]]]:
    """A model's fields: Python name to manifest name, and the model inside, by manifest name."""
    names, inner = {}, {}
    for name, field in model.model_fields.items():
        alias = field.alias or name
        names[name] = alias
        below = _model_in(field.annotation)
        if below is not None:
            inner[alias] = below
    return names, inner


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in get_args(annotation) if part is not NoneType)
    return next((model for model in found if model is not None), None)
