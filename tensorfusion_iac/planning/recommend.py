"""Which amounts a workload should have, from the histograms of what it used (SPEC §8). Pure.

Limit = upper bound; request = lower bound (low, medium), target (high) or upper bound (critical) of use, with a margin; inside
the ratios of what was asked for at first, and never above a card or the quota. Amounts are per GPU, in TFLOPS and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from tensorfusion_iac.api.levels import AutoscaleTarget, QoS
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.resources.autoscaling import AutoSetResources
from tensorfusion_iac.api.values import parse_duration
from tensorfusion_iac.planning.recommend_histogram import Histogram

FIRST_TFLOPS, FIRST_VRAM_BYTES = 0.1, 10_000_000.0
FLOOR_TFLOPS, FLOOR_VRAM_BYTES = 1.0, float(2**30)
VRAM_HEADROOM = 1.15
"""A VRAM limit is at least this much of present use: memory can't be taken back (SPEC §8)."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Which percentiles of use count as lower bound, target and upper bound (0..1)."""

    lower: float
    target: float
    upper: float


@dataclass(frozen=True, slots=True)
class Ratios:
    """Lowest and highest amount, as a share of the original."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Policy:
    """How to recommend. The defaults are SPEC §8's; the ratios are the public operator's."""

    target: AutoscaleTarget = AutoscaleTarget.ALL
    compute: Percentiles = Percentiles(0.5, 0.95, 0.99)
    vram: Percentiles = Percentiles(0.5, 0.98, 0.99)
    compute_ratios: Ratios = Ratios(0.1, 10.0)
    vram_ratios: Ratios = Ratios(0.2, 5.0)
    margin: float = 0.15
    threshold: float = 0.1
    history_s: float = 7200.0
    initial_delay_s: float = 1800.0

    @property
    def half_life_s(self) -> float:
        """Half the history period."""
        return self.history_s / 2


@dataclass(frozen=True, slots=True)
class Side:
    """Request and limit of one resource on one GPU."""

    request: float
    limit: float


@dataclass(frozen=True, slots=True)
class Amounts:
    """Compute in TFLOPS and memory in bytes; None: not asked for, or to be left alone."""

    compute: Side | None = None
    vram: Side | None = None


_UNBOUNDED = Side(float("inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a GPU of the workload may have: of its smallest card, and of what the quota leaves each GPU."""

    compute: Side = _UNBOUNDED
    vram: Side = _UNBOUNDED


def policy_of(config: AutoSetResources) -> Policy:
    """The policy that a workload's `autoSetResources` sets; what it leaves out is as by default."""
    plain = Policy()
    return Policy(
        config.target_resource or plain.target,
        Percentiles(
            _ratio(config.lower_bound_compute_percentile, plain.compute.lower),
            _ratio(config.target_compute_percentile, plain.compute.target),
            _ratio(config.upper_bound_compute_percentile, plain.compute.upper),
        ),
        Percentiles(
            _ratio(config.lower_bound_vram_percentile, plain.vram.lower),
            _ratio(config.target_vram_percentile, plain.vram.target),
            _ratio(config.upper_bound_vram_percentile, plain.vram.upper),
        ),
        Ratios(
            _ratio(config.min_compute_resources_ratio, plain.compute_ratios.least),
            _ratio(config.max_compute_resources_ratio, plain.compute_ratios.most),
        ),
        Ratios(
            _ratio(config.min_vram_resources_ratio, plain.vram_ratios.least),
            _ratio(config.max_vram_resources_ratio, plain.vram_ratios.most),
        ),
        _ratio(config.margin_fraction, plain.margin),
        _ratio(config.update_threshold, plain.threshold),
        max(_seconds(config.history_data_period, plain.history_s), 60.0),
        _seconds(config.initial_delay_period, plain.initial_delay_s),
    )


def compute_histogram(policy: Policy) -> Histogram:
    """An empty histogram of TFLOPS."""
    return Histogram(FIRST_TFLOPS, policy.half_life_s)


def vram_histogram(policy: Policy) -> Histogram:
    """An empty histogram of bytes."""
    return Histogram(FIRST_VRAM_BYTES, policy.half_life_s)


def recommend(
    compute: Histogram,
    vram: Histogram,
    original: Amounts,
    qos: QoS,
    policy: Policy,
    ceiling: Ceiling,
    used_vram_bytes: float = 0.0,
) -> Amounts:
    """The amounts that use asks for. What was not asked for at first, or has no history, is left alone.

    `used_vram_bytes`: the most that any of the workload's GPUs uses now.
    """
    found = Amounts()
    if original.compute is not None and not compute.empty:
        side = _of_use(compute, policy.compute, policy.margin, qos)
        found = replace(found, compute=inside(side, original.compute, policy.compute_ratios, FLOOR_TFLOPS, ceiling.compute))
    if original.vram is not None and not vram.empty:
        side = _of_use(vram, policy.vram, policy.margin, qos)
        side = inside(side, original.vram, policy.vram_ratios, FLOOR_VRAM_BYTES, ceiling.vram)
        headroom = min(VRAM_HEADROOM * used_vram_bytes, ceiling.vram.limit)
        found = replace(found, vram=Side(side.request, max(side.limit, headroom)))
    return found


def worth_it(current: Amounts, wanted: Amounts, policy: Policy) -> Amounts:
    """Of the wanted amounts, those of the policy's target that differ enough from the current ones; the rest is None."""
    compute = _if_different(current.compute, wanted.compute, policy.threshold)
    vram = _if_different(current.vram, wanted.vram, policy.threshold)
    return Amounts(
        compute if policy.target in (AutoscaleTarget.COMPUTE, AutoscaleTarget.ALL) else None,
        vram if policy.target in (AutoscaleTarget.VRAM, AutoscaleTarget.ALL) else None,
    )


def larger(one: Amounts, other: Amounts) -> Amounts:
    """Of two recommendations, the larger of each amount: a rule by the clock never takes what use needs."""
    return Amounts(_larger(one.compute, other.compute), _larger(one.vram, other.vram))


def _of_use(use: Histogram, percentiles: Percentiles, margin: float, qos: QoS) -> Side:
    upper = use.percentile(percentiles.upper) * (1 + margin)
    if qos is QoS.CRITICAL:
        return Side(upper, upper)
    share = percentiles.target if qos is QoS.HIGH else percentiles.lower
    return Side(min(use.percentile(share) * (1 + margin), upper), upper)


def inside(side: Side, original: Side, ratios: Ratios, floor: float, ceiling: Side) -> Side:
    """A side held to the original's ratios, the floor, and the ceiling, which beats a floor: what can't be had isn't asked."""
    request = min(max(side.request, floor, ratios.least * original.request), ratios.most * original.request, ceiling.request)
    limit = min(max(side.limit, floor, ratios.least * original.limit), ratios.most * original.limit, ceiling.limit)
    return Side(min(request, limit), limit)


def _if_different(current: Side | None, wanted: Side | None, threshold: float) -> Side | None:
    if current is None or wanted is None:
        return None
    pairs = ((current.request, wanted.request), (current.limit, wanted.limit))
    return wanted if any(abs(new - old) > threshold * old for old, new in pairs) else None


def _larger(one: Side | None, other: Side | None) -> Side | None:
    if one is None or other is None:
        return one or other
    return Side(max(one.request, other.request), max(one.limit, other.limit))


def _ratio(text: str | None, default: float) -> float:
    return float(Decimal(text)) if text else default


def _seconds(text: str | None, default: float) -> float:
    try:
        return parse_duration(text).total_seconds() if text else default
    except Fault:  # the model has read it once already
        return default
