"""A pydantic model as the structural schema of a CustomResourceDefinition (SPEC §4).

Kubernetes takes a narrow kind of OpenAPI: no references, no unions, a type at every node. What a model says and that can't
say is either one of our forms (`forms.py`), a rule between fields (CEL, from the model's RULES), or an error here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from tensorfusion_iac.api.crd.forms import FORMS
from tensorfusion_iac.api.resources.base import FORM, IGNORED

Node = dict[str, Any]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_RULES = "x-kubernetes-validations"
_OUR_DOCUMENT = re.compile(r" \(SPEC §[^)]*\)")  # means nothing to who asks `kubectl explain`
_DROPPED: Final = {"title", "default", IGNORED, FORM}
_KEPT: Final = (
    "description", "type", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems",
    "maxProperties", _INT_OR_STRING, _PRESERVE, "x-kubernetes-list-type", "x-kubernetes-list-map-keys", _RULES,
)  # fmt: skip
"""What passes as it is, in the order in which it is written."""


def structural(model: type[BaseModel]) -> Node:
    """The schema of a whole object. Raises ValueError for what Kubernetes can't say, with its place."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    node = _node(schema, definitions, model.__name__)
    node["properties"] |= {
        "apiVersion": {"description": "Group and version of the schema that the object follows.", "type": "string"},
        "kind": {"description": "Kind of the object.", "type": "string"},
        "metadata": {"type": "object"},
    }
    return node


def _node(raw: Mapping[str, Any], definitions: Mapping[str, Any], where: str) -> Node:
    schema = _without_null(_resolved(raw, definitions), definitions)
    form = FORMS.get(schema.get(FORM, ""))
    if form is not None:
        schema = {**schema, **form.plain}
    rules = [dict(rule) for rule in (*(form.rules if form else ()), *schema.get(_RULES, ())) if _affordable(rule, where)]
    schema = {key: value for key, value in schema.items() if key != _RULES} | ({_RULES: rules} if rules else {})
    node: Node = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in node:
        node["description"] = _OUR_DOCUMENT.sub("", node["description"])
    rest = {key: value for key, value in schema.items() if key not in node and key not in _DROPPED}
    if node.get(_INT_OR_STRING):
        node["anyOf"] = [dict(member) for member in rest.pop("anyOf")]
    if "properties" in rest:
        properties = rest.pop("properties")
        node["properties"] = {name: _node(value, definitions, f"{where}.{name}") for name, value in properties.items()}
        required = rest.pop("required", [])
        if required:
            node["required"] = sorted(required)
        rest.pop("additionalProperties", None)  # Kubernetes prunes what is not listed, or refuses it (fieldValidation)
    elif isinstance(rest.get("additionalProperties"), dict):
        node["additionalProperties"] = _node(rest.pop("additionalProperties"), definitions, f"{where}.*")
    if "items" in rest:
        node["items"] = _node(rest.pop("items"), definitions, f"{where}[]")
        node.setdefault("x-kubernetes-list-type", "atomic")
    typed = "type" in node or node.get(_PRESERVE) or node.get(_INT_OR_STRING)
    if rest or not typed:
        raise ValueError(f"{where}: no structural schema for {sorted(rest) or 'a value of any type'}")
    return node


def _affordable(rule: Mapping[str, str], where: str) -> bool:
    """Whether the API server admits the rule there: it refuses a CRD whose rules might cost too much.

    Kubernetes 1.33, our minimum, takes an int-or-string for 3 MB whatever its maxLength, so that a rule that reads one can't
    stand inside a list. In a status, which only our programs write, such rules would cost and protect nothing.
    """
    reads_amounts = "uantity(" in rule["rule"]
    return not (reads_amounts and ("[]" in where or ".status" in where))


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its reference put in; what stands beside the reference (a description) wins."""
    if "$ref" not in schema:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**definitions[schema["$ref"].rsplit("/", 1)[-1]], **beside}


def _without_null(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Optional is not nullable: a field that is not given is left out."""
    members = schema.get("anyOf", ())
    if {"type": "null"} not in members:
        return schema
    others = [member for member in members if member != {"type": "null"}]
    outside = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(others) != 1:
        return {**outside, "anyOf": others}
    return {**_without_null(_resolved(others[0], definitions), definitions), **outside}
