"""The provider of the plugin: a schema inferred from the declarations, and the real components for what is asked of them.

Pulumi's own provider of components would build the declared classes, after converting inputs in ways that lose unknown and
misspelled ones (research: six bugs); so here only the schema is its work.
"""

import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pulumi
from pulumi.errors import InputPropertiesError, InputPropertyErrorDetails
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.experimental.util import camel_case

import tensorfusion_iac.components as real
from shims.arguments import VGPU, JobFieldsArgs, MetadataArgs, WorkloadArgs
from shims.declared import COMPONENTS, arguments_of, outputs_of
from shims.received import received
from tensorfusion_iac.api.fields import BY_KEY, FIELDS, Field
from tensorfusion_iac.components.component import PACKAGE
from tensorfusion_iac.components.errors import Log, SpecError

_SHARED = (JobFieldsArgs, WorkloadArgs, MetadataArgs)
"""Declarations that others extend: the analyser reads the words of a class alone, without those of its bases."""


class Plugin(ComponentProvider):
    """Serves every component of the package."""

    def __init__(self) -> None:
        super().__init__(list(COMPONENTS), PACKAGE, version=version("tensorfusion-iac"))
        self._declared = {component.__name__: component for component in COMPONENTS}
        self.schema = json.dumps(self._documented(json.loads(self.schema or "")))

    def construct(
        self, name: str, resource_type: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Make the component, and tell what it gives back."""
        self.validate_resource_type(PACKAGE, resource_type)
        kind = resource_type.rpartition(":")[2]
        try:
            arguments = received(inputs, arguments_of(self._declared[kind]))
        except SpecError as error:
            raise refusal(error) from None
        component = getattr(real, kind)(name, opts=options, **arguments)
        return ConstructResult(component.urn, {name: _given_back(component, name) for name in outputs_of(self._declared[kind])})

    def _documented(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with what the analyser leaves out: words for inherited arguments, and those for a VGPU."""
        for component in COMPONENTS:
            properties = schema["resources"][f"{PACKAGE}:index:{component.__name__}"].get("inputProperties", {})
            _describe(properties, self._words(component.__init__.__annotations__["args"], *_SHARED))
        _describe(schema["types"][f"{PACKAGE}:index:VGPU"]["properties"], {**_WORDS_OF_A_VGPU, **self._words(VGPU)})
        return schema

    def _words(self, *declarations: Any) -> dict[str, str]:
        """The documentation strings of these declarations' fields, the first that a field has."""
        words: dict[str, str] = {}
        for declaration in declarations:
            for name in declaration.__annotations__:
                text = self.analyzer.get_docstring(declaration, name)
                if text:
                    words.setdefault(name, text)
        return words


def refuse(error: SpecError, log: Log) -> None:
    """Hand the problems to the engine, which shows them as those of the resource's properties; a log would repeat them."""
    raise refusal(error)


def refusal(error: SpecError) -> InputPropertiesError:
    """The problems as the engine takes them."""
    details = [InputPropertyErrorDetails(property_path=item["field"], reason=item["message"]) for item in error.records()]
    return InputPropertiesError("", details)


def _given_back(component: pulumi.ComponentResource, name: str) -> Any:
    value = getattr(component, name)
    return value.apply(_camel) if name == "requested" else value


def _camel(total: Mapping[str, Any]) -> dict[str, Any]:
    return {camel_case(name): value for name, value in total.items()}


def _words_of(row: Field) -> str:
    """An annotation's rule, for who gives lists, mappings and names in camelCase."""
    takes = row.takes.replace("a comma list", "a list").replace("a JSON object", "a mapping")
    default = "" if row.default == "-" else f" Default: {row.default}."
    rule = f" {row.rule[0].upper()}{row.rule[1:]}." if row.rule else ""
    return _KEY.sub(lambda key: camel_case(BY_KEY[key[0]].argument), f"{takes}.{default}{rule}")


_KEY = re.compile(r"\b(?:" + "|".join(key for key in BY_KEY if "-" in key) + r")\b")
_WORDS_OF_A_VGPU = {row.argument: _words_of(row) for row in FIELDS}


def _describe(properties: dict[str, Any], words: Mapping[str, str]) -> None:
    for name, text in words.items():
        if camel_case(name) in properties:
            properties[camel_case(name)]["description"] = text
    for described in properties.values():
        for part in ("items", "additionalProperties"):  # the analyser says it there once more
            described.get(part, {}).pop("description", None)
