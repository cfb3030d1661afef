"""Requests and limits of compute and memory, and the rules by which they fit together (SPEC §2, §4)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic.alias_generators import to_snake

from tensorfusion_iac.api.resources.base import Model, Percent, Rule, Tflops, Vram
from tensorfusion_iac.api.resources.cel import covers, given


class Amounts(Model):
    """Compute and memory of one side, per vGPU worker per GPU. 0 means: not given."""

    tflops: Tflops | None = Field(default=None, description="FP16 TFLOPS, below 100000. Excludes compute.")
    vram: Vram | None = Field(default=None, description="Bytes of GPU memory, below 10Ti.")
    compute: Percent | None = Field(default=None, description="Percent of the card's compute, 0..100. Excludes tflops.")

    RULES: ClassVar = (
        Rule(
            f"!({given('tflops')} && {given('compute')})",
            lambda amounts: not (amounts.tflops and amounts.compute),
            "compute",
            "compute stands beside tflops",
            "one of the two",
        ),
    )


def limits_cover_requests(limits: str, requests: str) -> tuple[Rule, ...]:
    """The rules by which the fields `limits` and `requests` (camelCase) of one object fit together."""

    def rule(what: str) -> Rule:
        def holds(resources: Model) -> bool:
            limit = getattr(getattr(resources, to_snake(limits)), what, None)
            request = getattr(getattr(resources, to_snake(requests)), what, None)
            return not limit or request is None or limit >= request

        limit, request = f"{limits}.{what}", f"{requests}.{what}"
        return Rule(
            covers(limit, request),
            holds,
            limit,
            f"{limit} is below {request}",
            "at least as much, or leave it out",
        )

    return tuple(rule(what) for what in ("tflops", "vram", "compute"))


class Resources(Model):
    """Requests and limits. A missing request is the limit; a missing vram limit is the vram request."""

    requests: Amounts | None = Field(default=None, description="What the scheduler reserves on each GPU.")
    limits: Amounts | None = Field(default=None, description="What the node agent enforces on each GPU.")

    RULES: ClassVar = limits_cover_requests("limits", "requests")
