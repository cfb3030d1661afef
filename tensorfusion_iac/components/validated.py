"""Problems of a custom resource's spec by its pydantic model, as values (SPEC §4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from tensorfusion_iac.api.problem import Problem, quote


def read(model: type[BaseModel], manifest: Mapping[str, Any]) -> BaseModel:
    """The typed object of a manifest that has no problems."""
    return model.model_validate(manifest)


def problems_in(model: type[BaseModel], spec: Mapping[str, Any], missing: Collection[tuple[str, ...]]) -> list[Problem]:
    """The problems of the known part of a spec; `missing` are the paths that are known later."""
    try:
        model.model_validate({"spec": spec})
    except ValidationError as error:
        return [_problem(item) for item in error.errors(include_url=False) if not (item["type"] == "missing" and missing)]
    return []


def _problem(item: Any) -> Problem:
    where = ".".join(str(part) for part in item["loc"])
    fault = item.get("ctx", {}).get("fault")
    if fault is not None:
        return Problem(where, fault.found, fault.accepted, fault.message)
    return Problem(where, quote(item.get("input")), item["msg"], "{found}: {accepted}")
