"""The forms of values that plain OpenAPI can't tell: amounts, vendors, durations, names (SPEC §2), for the API server.

Each form's reader in Python (`quantity.py`, `values.py`, `vendors.py`, `resources/text.py`) decides the same; the patterns
are taken from there, and a test puts the same values to both. Rules in CEL carry our text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensorfusion_iac.api import quantity, values
from tensorfusion_iac.api.resources import text
from tensorfusion_iac.api.vendors import ALIASES, Vendor

Validation = Mapping[str, str]
"""One entry of `x-kubernetes-validations`."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a schema says of a form: plain OpenAPI members, and rules in CEL."""

    rules: tuple[Validation, ...]
    plain: Mapping[str, Any] = field(default_factory=dict)


def _rule(cel: str, message: str) -> Validation:
    return {"rule": cel, "message": message}


def _whole(pattern: re.Pattern[str]) -> str:
    return f"^(?:{pattern.pattern})$"


def _text(pattern: re.Pattern[str], accepted: str) -> Form:
    return Form((_rule(f"self == '' || self.matches(r'{_whole(pattern)}')", f"must be {accepted}"),))


_IS_QUANTITY = "isQuantity(string(self))"


def _amount(*bounds: tuple[str, str]) -> Form:
    """An amount that is not negative, with further conditions and what to say when they fail."""
    form = _rule(_IS_QUANTITY, "must be a Kubernetes quantity such as 10, 0.5, 500m, 4Gi or 4G")
    rules = (_rule(f"!{_IS_QUANTITY} || {condition}", message) for condition, message in bounds)
    return Form((form, *rules), {"pattern": _whole(quantity.QUANTITY), "minimum": 0})


def _below(bound: int) -> str:
    return f"quantity(string(self)).isLessThan(quantity('{bound}'))"


def _at_most(bound: int) -> str:
    return f"quantity(string(self)).compareTo(quantity('{bound}')) <= 0"


_ZERO = "quantity(string(self)).compareTo(quantity('0')) == 0"
_VENDORS = ", ".join(f"'{name}'" for name in sorted({*(vendor.value.lower() for vendor in Vendor), *ALIASES}))

FORMS: Final[Mapping[str, Form]] = {
    "quantity": _amount(),
    "tflops": _amount(
        (_below(int(quantity.MAX_TFLOPS)), "must be TFLOPS above 0 and below 100000; 0 means not given"),
    ),
    "vram": _amount(
        # Bytes round up, so that what is above the last whole byte counts as the bound itself.
        (_at_most(quantity.MAX_VRAM_BYTES - 1), "must be bytes above 0 and below 10Ti; 0 means not given"),
        (
            f"{_ZERO} || !string(self).matches('[0-9.]$') || !({_at_most(quantity.MIN_BARE_VRAM_BYTES - 1)})",
            "must be a size with its unit, such as 8Gi; a bare number is bytes, at least 1048576",
        ),
    ),
    "percent": _amount((_at_most(100), "must be a number from 0 to 100")),
    "vendor": Form((_rule(f"self.lowerAscii() in [{_VENDORS}]", f"must be one of {', '.join(Vendor)} (any case)"),)),
    "duration": Form(
        (
            _rule(
                f"self == '' || self == '0' || (self.matches(r'{_whole(values.DURATION)}') && "
                "duration(self) <= duration('8760h'))",
                "must be a duration such as 30m, 90s or 1h30m, of at most a year (8760h)",
            ),
        )
    ),
    "ratio": _text(text.RATIO, "a plain decimal number such as 0.95"),
    "template": _text(values.TEMPLATE, "a MIG profile name such as 1g.10gb or 3g.40gb"),
    "model": _text(values.MODEL, "a GPU model or family such as A100, L40s or H100_SXM"),
    "pool-name": _text(values.SUBDOMAIN, "the name of a GPUPool (lower-case letters, digits, - and ., at most 63)"),
    "url": _text(text.URL, "a URL such as https://scaler.example.com/v1"),
    "cron": _text(text.CRON, "five cron fields such as 0 9 * * 1-5"),
}
"""By the name that a model marks a field with (`resources.base.FORM`)."""
