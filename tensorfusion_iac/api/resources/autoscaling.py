"""How a workload's amounts are set: by the history of use, by the clock, by an external service (SPEC §8)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tensorfusion_iac.api.levels import AutoscaleTarget
from tensorfusion_iac.api.resources.amounts import Resources
from tensorfusion_iac.api.resources.base import Model, Name, Rule, ignored
from tensorfusion_iac.api.resources.text import CronText, DurationText, RatioText, UrlText

MAX_CRON_RULES = 64


class AutoSetResources(Model):
    """Autoscaling of the amounts by the history of use (SPEC §8)."""

    enable: bool = Field(default=False, description="Set the amounts from the history of use.")
    target_resource: AutoscaleTarget | None = Field(default=None, description="Which amounts to set; default all.")
    target_compute_percentile: RatioText | None = Field(default=None, description="Percentile of compute use; default 0.95.")
    lower_bound_compute_percentile: RatioText | None = Field(default=None, description="Default 0.5.")
    upper_bound_compute_percentile: RatioText | None = Field(default=None, description="Default 0.99.")
    target_vram_percentile: RatioText | None = Field(
        default=None, alias="targetVRAMPercentile", description="Percentile of memory use; default 0.98."
    )
    lower_bound_vram_percentile: RatioText | None = Field(
        default=None, alias="lowerBoundVRAMPercentile", description="Default 0.5."
    )
    upper_bound_vram_percentile: RatioText | None = Field(
        default=None, alias="upperBoundVRAMPercentile", description="Default 0.99."
    )
    margin_fraction: RatioText | None = Field(default=None, description="Added to the estimate; default 0.15.")
    update_threshold: RatioText | None = Field(default=None, description="Smallest change applied; default 0.1.")
    history_data_period: DurationText | None = Field(default=None, description="Length of the history; default 2h.")
    min_vram_resources_ratio: RatioText | None = Field(
        default=None, alias="minVRAMResourcesRatio", description="Lowest vram, as a share of the original."
    )
    max_vram_resources_ratio: RatioText | None = Field(
        default=None, alias="maxVRAMResourcesRatio", description="Highest vram, as a share of the original."
    )
    min_compute_resources_ratio: RatioText | None = Field(default=None, description="Lowest compute, as a share of the original.")
    max_compute_resources_ratio: RatioText | None = Field(
        default=None, description="Highest compute, as a share of the original."
    )
    initial_delay_period: DurationText | None = Field(default=None, description="No change before; default 30m.")
    interval: DurationText | None = Field(default=None, description="Time between two looks; default 30s.")


class CronScalingRule(Model):
    """Amounts that hold between two cron times."""

    enable: bool = Field(default=True, description="Whether the rule counts.")
    name: Annotated[str, Field(max_length=63)] = Field(default="", description="Name, shown in status.")
    start: CronText = Field(default="", description="Five cron fields: when it begins.")
    end: CronText = Field(default="", description="Five cron fields: when it ends.")
    time_zone: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="IANA time zone; default UTC.")
    desired_resources: Resources | None = Field(default=None, description="The amounts while it holds.")

    RULES: ClassVar = (
        Rule(
            "!has(self.start) || !has(self.end) || self.start == '' || self.start != self.end",
            lambda rule: not rule.start or rule.start != rule.end,
            "end",
            "end is the same as start",
            "another time",
        ),
    )


class SecretKeyRef(Model):
    """A Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: Annotated[str, Field(max_length=253)] | None = Field(default=None, description="Key in it; default token.")
    namespace: Name | None = ignored("Only the workload's own namespace is read.")


class ExternalScaler(Model):
    """A service that is asked for the amounts by HTTP POST."""

    enable: bool = Field(default=False, description="Whether to ask it.")
    url: UrlText = Field(default="", description="Its URL; the platform must allow the host.")
    api_key_secret_ref: SecretKeyRef | None = Field(default=None, description="Bearer token.")
    initial_delay_period: DurationText | None = Field(default=None, description="Not asked before.")
    interval: DurationText | None = Field(default=None, description="Time between two questions.")

    RULES: ClassVar = (
        Rule(
            "!has(self.enable) || !self.enable || (has(self.url) && self.url != '')",
            lambda scaler: not scaler.enable or bool(scaler.url),
            "url",
            "enable without url",
            "the URL to ask",
            needs=("url",),
        ),
    )


class AutoScalingConfig(Model):
    """The three ways of autoscaling; each also works alone."""

    auto_set_resources: AutoSetResources | None = Field(default=None, description="By the history of use.")
    cron_scaling_rules: Annotated[tuple[CronScalingRule, ...], Field(max_length=MAX_CRON_RULES)] | None = Field(
        default=None, description="By the clock."
    )
    external_scaler: ExternalScaler | None = Field(default=None, description="By an external service.")
