"""Text fields of custom resources that have a form of their own: durations, ratios, names read by a value's reader.

Empty text means "not given", as everywhere in custom resources; the text stays as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tensorfusion_iac.api import values
from tensorfusion_iac.api.problem import Fault, quote

_RATIO = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


def read_by(parse: Callable[[str], Any]) -> AfterValidator:
    """A validator: text that `parse` must accept, unless empty."""

    def check(text: str) -> str:
        try:
            if text:
                parse(text)
        except Fault as fault:
            raise PydanticCustomError("text", "{text}", {"text": str(fault), "fault": fault}) from None
        return text

    return AfterValidator(check)


def _parse_ratio(text: str) -> str:
    if _RATIO.fullmatch(text) is None:
        raise Fault(quote(text), "a plain decimal number such as 0.95")
    return text


DurationText = Annotated[str, read_by(values.parse_duration), Field(max_length=32)]
RatioText = Annotated[str, read_by(_parse_ratio), Field(max_length=32)]
TemplateText = Annotated[str, read_by(values.parse_template), Field(max_length=32)]
ModelText = Annotated[str, read_by(values.parse_model), Field(max_length=63)]
PoolNameText = Annotated[str, read_by(values.parse_label_name), Field(max_length=63)]
