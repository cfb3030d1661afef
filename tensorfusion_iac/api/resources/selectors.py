"""Kubernetes' own selectors and tolerations, as far as our resources hold them: of labels, of nodes, of taints (SPEC §4)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tensorfusion_iac.api.resources.base import Model, Rule
from tensorfusion_iac.api.values import MAX_INT32

LabelKey = Annotated[str, Field(max_length=317)]
LabelValue = Annotated[str, Field(max_length=63)]
LabelValues = Annotated[tuple[LabelValue, ...], Field(max_length=64)]

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_TAKES_VALUES = Rule(
    "self.operator in ['Gt', 'Lt'] || (self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
    lambda term: term.operator in ("Gt", "Lt") or (term.operator in ("In", "NotIn")) == bool(term.values),
    "values",
    "values do not fit the operator",
    "at least one value for In and NotIn, none for Exists and DoesNotExist",
    needs=("values",),
)


def meets(operator: str, value: str | None, values: Collection[str]) -> bool:
    """Whether a label's value (None: there is no such label) meets a requirement, as of every selector of Kubernetes.

    ValueError for an operator that not every selector has.
    """
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"{operator} is not one of In, NotIn, Exists, DoesNotExist")


class LabelRequirement(Model):
    """One requirement of a label selector."""

    key: LabelKey = Field(description="Label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How the label is held against values.")
    values: LabelValues | None = Field(default=None, description="At least one for In and NotIn, none for the others.")

    RULES: ClassVar = (_TAKES_VALUES,)


class LabelSelector(Model):
    """A label selector, as Kubernetes' own. Empty selects everything."""

    match_labels: dict[str, LabelValue] | None = Field(default=None, description="Labels that must have these values.")
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=64)] | None = Field(
        default=None, description="Requirements that must all be met."
    )


class NodeRequirement(Model):
    """One requirement of a node selector term."""

    key: LabelKey = Field(description="Label, or field of the node.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(description="How it is held against values.")
    values: LabelValues | None = Field(
        default=None, description="At least one for In and NotIn, one whole number for Gt and Lt, none for the others."
    )

    RULES: ClassVar = (
        _TAKES_VALUES,
        Rule(
            "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && "
            "self.values[0].matches('^-?[0-9]{1,18}$'))",
            lambda term: (
                term.operator not in ("Gt", "Lt")
                or (len(term.values or ()) == 1 and _WHOLE.fullmatch(term.values[0]) is not None)
            ),
            "values",
            "operator Gt or Lt without its number",
            "values with one whole number",
            needs=("values",),
        ),
    )


class NodeSelectorTerm(Model):
    """Requirements that a node must all meet."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=64)] | None = Field(
        default=None, description="Requirements on the node's labels."
    )
    match_fields: Annotated[tuple[NodeRequirement, ...], Field(max_length=64)] | None = Field(
        default=None, description="Requirements on the node's fields; metadata.name is the only one."
    )


class NodeSelector(Model):
    """A node is selected if it meets any of the terms."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(max_length=64)] = Field(
        default=(), description="Terms, of which one must match."
    )


class Toleration(Model):
    """A toleration, as Kubernetes' own."""

    key: LabelKey | None = Field(default=None, description="Taint; default every taint.")
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="Default Equal.")
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; default every effect."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=MAX_INT32)] | None = Field(
        default=None, description="How long NoExecute is tolerated; default for ever."
    )
