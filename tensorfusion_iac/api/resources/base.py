"""What all custom resources share: the model base, metadata, conditions, and the quantity types (SPEC §4).

The CRDs are generated from these models (`api/crd`), so a field's type, bounds and description stand here once. A
field marked with `ignored()` is one that the public operator has and we do not use: accepted, described so, and unused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from tensorfusion_iac.api import quantity
from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.values import parse_vendor_name
from tensorfusion_iac.api.vendors import Vendor


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule between fields, written twice: in CEL for the API server, in Python for what is judged without one.

    Both see the same object: `self` in CEL, the model in `holds`. A test puts the same objects to both. The fault is
    reported at `field`, a path below the object; `needs` names fields that must be there for the rule to hold, so that
    it is not judged while one of them has a fault of its own.
    """

    cel: str
    holds: Callable[[Any], bool]
    field: str
    fault: str
    accepted: str
    needs: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """What both say when the rule is broken."""
        return f"{self.fault}; give {self.accepted}"


def _carry_rules(schema: dict[str, Any], model: type[BaseModel]) -> None:
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())
    if rules:
        schema["x-kubernetes-validations"] = [_validation(rule) for rule in rules]


def _validation(rule: Rule) -> dict[str, str]:
    validation = {"rule": rule.cel, "message": rule.message}
    if rule.field.startswith("metadata."):  # a CRD can't point there
        return validation
    return {**validation, "fieldPath": f".{rule.field}"}


class Model(BaseModel):
    """Base of every part of a custom resource: camelCase in manifests, snake_case in Python, immutable."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=False,
        json_schema_extra=_carry_rules,
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, as pydantic makes it, but without what was derived from the old values (cached properties)."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class Status(Model):
    """Base of statuses: fields of newer versions are tolerated."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column of `kubectl get`."""

    name: str
    json_path: str
    kind: str = "string"
    wide_only: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """What a CRD needs to know beside the schema."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    scope: str
    columns: tuple[Column, ...]
    description: str
    scale: tuple[str, str, str] | None = None  # spec replicas path, status replicas path, label selector path


class OwnerReference(Model):
    """Owner of an object, as Kubernetes writes it."""

    model_config = ConfigDict(extra="ignore")
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Model):
    """The part of Kubernetes' object metadata that decisions read. Other members are tolerated."""

    model_config = ConfigDict(extra="ignore")
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Status):
    """A condition, by Kubernetes' convention."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What it tells, for example Ready.")
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})] = Field(
        description="Whether it is so."
    )
    reason: Annotated[str, Field(max_length=1024)] = Field(default="", description="Why, in one word for programs.")
    message: Annotated[str, Field(max_length=32768)] = Field(default="", description="Why, for people.")
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = Field(
        default=None, description="When status last changed."
    )
    observed_generation: int | None = Field(default=None, description="Generation of the spec that it was judged by.")


Conditions = Annotated[
    tuple[Condition, ...],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


def _amount(parse: Callable[[str], Any]) -> BeforeValidator:
    def read(value: object) -> Any:
        try:
            return parse(value if isinstance(value, str) else _number_text(value))
        except Fault as fault:
            raise PydanticCustomError("quantity", "{text}", {"text": str(fault), "fault": fault}) from None

    return BeforeValidator(read)


def _number_text(value: object) -> str:
    """The text of a number that the API server takes for an amount: a whole one of at most 64 bits."""
    if isinstance(value, float) and not value.is_integer():
        message = "{found} is a YAML float, which Kubernetes refuses here; give {accepted}"
        raise Fault(quote(value), "the number as text, in quotes", message)
    number = Decimal(value) if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None
    if number is None or not number.is_finite() or abs(number) >= 2**63:
        raise Fault(quote(value), "a Kubernetes quantity, as a whole number or text")
    return quantity.format_decimal(number)


def _or_zero(parse: Callable[[str], Any], zero: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        return zero if quantity.parse_quantity(text) == 0 else parse(text)

    return read


FORM = "x-tensor-fusion-form"
"""Marks a schema whose values have a form that plain OpenAPI can't tell; `api/crd/forms.py` has the rules of each."""

IGNORED = "x-tensor-fusion-ignored"
"""Marks a field of the public operator that we do not use."""

IGNORED_TEXT = "Accepted for manifests of the public operator and ignored."

_QUANTITY_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "maxLength": quantity.MAX_LENGTH,
}

Tflops = Annotated[
    Decimal,
    _amount(_or_zero(quantity.parse_tflops, Decimal(0))),
    WithJsonSchema({**_QUANTITY_SCHEMA, FORM: "tflops"}),
]
"""FP16 TFLOPS, 0 (not given) to below 100,000."""

Vram = Annotated[
    int,
    _amount(_or_zero(quantity.parse_vram, 0)),
    WithJsonSchema({**_QUANTITY_SCHEMA, FORM: "vram"}),
]
"""Bytes, 0 (not given) to below 10Ti."""

Percent = Annotated[Decimal, _amount(quantity.parse_percent), WithJsonSchema({**_QUANTITY_SCHEMA, FORM: "percent"})]
"""Percent of one card, 0..100."""

Quantity = Annotated[
    Decimal,
    _amount(quantity.parse_quantity),
    WithJsonSchema({**_QUANTITY_SCHEMA, FORM: "quantity"}),
]
"""Any amount that is not negative: totals of pools, nodes and quotas."""


def _vendor(value: object) -> object:
    try:
        return parse_vendor_name(value) if isinstance(value, str) else value
    except Fault as fault:
        raise PydanticCustomError("vendor", "{text}", {"text": str(fault), "fault": fault}) from None


VendorName = Annotated[
    Vendor,
    BeforeValidator(_vendor),
    WithJsonSchema({"type": "string", "maxLength": 32, FORM: "vendor"}),
]
"""A vendor, any case. The CRD checks it by a rule, since an enum would be case-sensitive."""

Name = Annotated[str, Field(max_length=253)]
ShortText = Annotated[str, Field(max_length=1024)]
FreeObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""An object whose schema is not ours (a pod template, a node affinity)."""


def ignored(description: str = "", *, alias: str | None = None) -> Any:
    """A field of the public operator that is accepted and not used here."""
    text = f"{description} {IGNORED_TEXT}".strip()
    return Field(default=None, alias=alias, description=text, json_schema_extra={IGNORED: True})
