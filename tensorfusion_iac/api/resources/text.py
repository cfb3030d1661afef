"""Text fields of custom resources that have a form of their own (durations, ratios, cron times, names), and lists as sets.

Empty text means "not given", as everywhere in custom resources; the text stays as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tensorfusion_iac.api import values
from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.resources.base import FORM

RATIO = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?")
_CRON_UNIT = r"(?:\*|(?:[0-9]{1,2}|[A-Za-z]{3})(?:-(?:[0-9]{1,2}|[A-Za-z]{3}))?)(?:/[0-9]{1,2})?"
CRON = re.compile(rf"{_CRON_UNIT}(?:,{_CRON_UNIT})*(?: +{_CRON_UNIT}(?:,{_CRON_UNIT})*){{4}}")


URL = re.compile(r"https?://[!-~]+")


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


def distinct() -> tuple[Any, ...]:
    """What makes a list field a set: each item once, here and for the API server."""

    def check(items: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        twice = sorted({str(item) for item in items if items.count(item) > 1})
        if twice:
            fault = Fault(", ".join(twice), "each once", "{found} stands in the list more than once; give {accepted}")
            raise PydanticCustomError("distinct", "{text}", {"text": str(fault), "fault": fault})
        return items

    return (AfterValidator(check), Field(json_schema_extra={"x-kubernetes-list-type": "set"}))


def _parse_ratio(text: str) -> str:
    if RATIO.fullmatch(text) is None:
        raise Fault(quote(text), "a plain decimal number such as 0.95")
    return text


def _parse_cron(text: str) -> str:
    if CRON.fullmatch(text) is None:
        raise Fault(quote(text), "five cron fields such as 0 9 * * 1-5")
    return text


def _parse_url(text: str) -> str:
    if URL.fullmatch(text) is None:
        raise Fault(quote(text), "a URL such as https://scaler.example.com/v1")
    return text


def _text(form: str, parse: Callable[[str], Any], max_length: int) -> tuple[Any, ...]:
    return read_by(parse), Field(max_length=max_length, json_schema_extra={FORM: form})


DurationText = Annotated[str, *_text("duration", values.parse_duration, 32)]
RatioText = Annotated[str, *_text("ratio", _parse_ratio, 32)]
TemplateText = Annotated[str, *_text("template", values.parse_template, 32)]
ModelText = Annotated[str, *_text("model", values.parse_model, 63)]
PoolNameText = Annotated[str, *_text("pool-name", values.parse_label_name, 63)]
UrlText = Annotated[str, *_text("url", _parse_url, 2048)]
CronText = Annotated[str, *_text("cron", _parse_cron, 128)]
