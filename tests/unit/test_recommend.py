"""The recommender: its histogram against a plain model, and its rules (SPEC §8)."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.levels import AutoscaleTarget, QoS
from tensorfusion_iac.api.resources.autoscaling import AutoSetResources
from tensorfusion_iac.planning.recommend import (
    Amounts,
    Ceiling,
    Policy,
    Side,
    compute_histogram,
    larger,
    policy_of,
    recommend,
    vram_histogram,
    worth_it,
)
from tensorfusion_iac.planning.recommend_histogram import Histogram, Sample, bucket_of, end_of, from_json

GIB = 2**30
HALF_LIFE_S = 3600.0
VALUES = st.floats(0, 1e5, allow_nan=False)
SAMPLES = st.lists(st.builds(Sample, VALUES, st.floats(0.01, 10), st.floats(0, 80 * HALF_LIFE_S)), min_size=1, max_size=40)
SHARES = st.sampled_from([0.5, 0.95, 0.98, 0.99])


def histogram(*samples: Sample) -> Histogram:
    return Histogram(0.1, HALF_LIFE_S).adding(samples)


def plain_percentile(samples: list[Sample], share: float) -> tuple[float, float]:
    """By sorting all samples, with weights as of the newest; two answers, for shares a rounding error apart."""
    newest = max(one.at_s for one in samples)
    weighed = sorted((one.value, one.weight * 2 ** ((one.at_s - newest) / HALF_LIFE_S)) for one in samples)
    total = sum(weight for _, weight in weighed)

    def at(wanted: float) -> float:
        seen = 0.0
        for value, weight in weighed:
            seen += weight
            if seen >= wanted * total:
                return value
        return weighed[-1][0]

    return at(share - 1e-9), at(share + 1e-9)


# The histogram.


@given(VALUES)
def test_a_value_lies_in_its_bucket(value: float) -> None:
    bucket = bucket_of(value, 0.1)
    assert value <= end_of(bucket, 0.1) * (1 + 1e-9)
    assert bucket == 0 or value >= end_of(bucket - 1, 0.1) * (1 - 1e-9)


@given(SAMPLES, SHARES)
def test_a_percentile_is_that_of_a_plain_model_up_to_a_bucket(samples: list[Sample], share: float) -> None:
    low, high = plain_percentile(samples, share)
    found = histogram(*samples).percentile(share)
    assert end_of(bucket_of(low, 0.1), 0.1) * (1 - 1e-9) <= found <= end_of(bucket_of(high, 0.1), 0.1) * (1 + 1e-9)


@given(SAMPLES, st.randoms(use_true_random=False), SHARES)
def test_the_order_of_samples_and_how_they_are_given_does_not_matter(samples: list[Sample], random: object, share: float) -> None:
    at_once, one_by_one, mixed = histogram(*samples), histogram(), list(samples)
    for sample in samples:
        one_by_one = one_by_one.adding([sample])
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert one_by_one == at_once
    low, high = sorted((histogram(*mixed).percentile(share), at_once.percentile(share)))
    bounds = [end_of(bucket_of(value, 0.1), 0.1) for value in plain_percentile(samples, share)]
    assert bounds[0] * (1 - 1e-9) <= low <= high <= bounds[1] * (1 + 1e-9)


@given(SAMPLES)
def test_a_histogram_survives_being_written_and_read(samples: list[Sample]) -> None:
    made = histogram(*samples)
    assert from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"first": 0, "halfLifeSeconds": 1, "reference": 0, "weights": []},
        {"first": 1, "halfLifeSeconds": 1, "reference": math.nan, "weights": []},
        {"first": 1, "halfLifeSeconds": 1, "reference": 0, "weights": [[0, -1]]},
        {"first": 1, "halfLifeSeconds": 1, "reference": 0, "weights": [[9999, 1]]},
        {"first": 1, "halfLifeSeconds": 1, "reference": 0, "weights": 3},
        {"first": 1, "halfLifeSeconds": 1, "reference": 0, "weights": [[0]]},
    ],
)
def test_what_is_no_histogram_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a histogram"):
        from_json(document)


def test_old_use_counts_half_after_a_half_life_and_nothing_after_many() -> None:
    made = histogram(Sample(100, 2.5, 0), Sample(1, 1, HALF_LIFE_S))
    assert made.percentile(0.5) > 90, "1.25 of 2.25 are of the old one"
    assert histogram(Sample(100, 1.5, 0), Sample(1, 1, HALF_LIFE_S)).percentile(0.5) < 2
    late = histogram(Sample(100, 1, 0), Sample(1, 1, 1000 * HALF_LIFE_S))
    assert late.percentile(0.999) < 2
    assert len(late.weights) == 1


# The rules.


def use(tflops: float = 10.0, vram: float = 10 * GIB, count: int = 100) -> tuple[Histogram, Histogram]:
    policy = Policy()
    compute = compute_histogram(policy).adding(Sample(tflops, 1, at * 30) for at in range(count))
    return compute, vram_histogram(policy).adding(Sample(vram, 1, at * 30) for at in range(count))


ORIGINAL = Amounts(Side(20, 40), Side(8 * GIB, 16 * GIB))


def near(value: float, wanted: float) -> bool:
    return wanted <= value <= wanted * 1.06


def test_the_amounts_are_use_and_a_margin() -> None:
    found = recommend(*use(), ORIGINAL, QoS.MEDIUM, Policy(), Ceiling())
    assert found.compute is not None
    assert found.vram is not None
    assert near(found.compute.limit, 11.5)
    assert near(found.vram.limit, 11.5 * GIB)


@pytest.mark.parametrize(("qos", "request_"), [(QoS.LOW, 10), (QoS.MEDIUM, 10), (QoS.HIGH, 20), (QoS.CRITICAL, 40)])
def test_the_request_is_by_quality_of_service(qos: QoS, request_: int) -> None:
    values = [10.0] * 60 + [20.0] * 37 + [40.0] * 3
    compute = compute_histogram(Policy()).adding(Sample(value, 1, 0) for value in values)
    found = recommend(compute, vram_histogram(Policy()), ORIGINAL, qos, Policy(), Ceiling()).compute
    assert found is not None
    assert near(found.request, request_ * 1.15)
    assert near(found.limit, 40 * 1.15)


def test_what_was_not_asked_for_or_has_no_history_is_left_alone() -> None:
    compute, vram = use()
    found = recommend(compute, vram, Amounts(None, ORIGINAL.vram), QoS.LOW, Policy(), Ceiling())
    assert found.compute is None
    empty = vram_histogram(Policy())
    assert recommend(compute, empty, ORIGINAL, QoS.LOW, Policy(), Ceiling()).vram is None


def test_a_recommendation_is_never_above_a_card_or_what_the_quota_leaves() -> None:
    compute, vram = use(1000.0, 120 * GIB)
    original = Amounts(Side(200, 300), Side(70 * GIB, 80 * GIB))
    found = recommend(
        compute, vram, original, QoS.CRITICAL, Policy(), Ceiling(Side(312, 312), Side(80 * GIB, 80 * GIB)), 79 * GIB
    )
    assert found == Amounts(Side(312, 312), Side(80 * GIB, 80 * GIB))


def test_a_memory_limit_is_never_below_present_use_with_headroom() -> None:
    compute, vram = use(vram=GIB)
    found = recommend(compute, vram, ORIGINAL, QoS.LOW, Policy(), Ceiling(), used_vram_bytes=10 * GIB).vram
    assert found is not None
    assert found.limit == pytest.approx(11.5 * GIB)


AMOUNT = st.floats(0.5, 500)
SIDES = st.builds(lambda one, two: Side(min(one, two), max(one, two)), AMOUNT, AMOUNT)
GIBS = SIDES.map(lambda side: Side(side.request * GIB, side.limit * GIB))


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=20), st.lists(st.floats(0, 1000), min_size=1, max_size=20), SIDES, GIBS,
    st.sampled_from(list(QoS)), AMOUNT, AMOUNT, st.floats(0, 1000),
)  # fmt: skip
def test_bounds_hold_whatever_was_used(
    tflops: list[float], gibs: list[float], compute: Side, vram: Side, qos: QoS, cap: float, cap_gib: float, used: float
) -> None:
    policy, ceiling = Policy(), Ceiling(Side(cap, cap), Side(cap_gib * GIB, cap_gib * GIB))
    first = compute_histogram(policy).adding(Sample(value, 1, 0) for value in tflops)
    second = vram_histogram(policy).adding(Sample(value * GIB, 1, 0) for value in gibs)
    found = recommend(first, second, Amounts(compute, vram), qos, policy, ceiling, used * GIB)
    assert found.compute is not None
    assert found.vram is not None
    for side, original, ratios, most, floor in (
        (found.compute, compute, policy.compute_ratios, cap, 1.0),
        (found.vram, vram, policy.vram_ratios, cap_gib * GIB, GIB),
    ):
        assert 0 < side.request <= side.limit <= most
        assert side.request <= ratios.most * original.request
        assert side.limit >= min(floor, most, ratios.most * original.limit)
    assert found.vram.limit >= min(1.15 * used * GIB, cap_gib * GIB)


@given(SIDES, st.sampled_from(list(AutoscaleTarget)))
def test_small_changes_and_what_is_not_the_target_are_not_made(side: Side, target: AutoscaleTarget) -> None:
    policy = Policy(target=target)
    current = Amounts(side, side)
    assert worth_it(current, Amounts(Side(side.request * 1.09, side.limit * 0.91), None), policy) == Amounts()
    more = Side(side.request, side.limit * 1.2)
    found = worth_it(current, Amounts(more, more), policy)
    assert (found.compute, found.vram) == (
        more if target is not AutoscaleTarget.VRAM else None,
        more if target is not AutoscaleTarget.COMPUTE else None,
    )


def test_of_two_recommendations_the_larger_amounts_count() -> None:
    assert larger(Amounts(Side(1, 5), None), Amounts(Side(2, 4), Side(1, 1))) == Amounts(Side(2, 5), Side(1, 1))


def test_a_workloads_own_settings_replace_the_defaults_one_by_one() -> None:
    config = AutoSetResources.model_validate(
        {"enable": True, "targetResource": "vram", "marginFraction": "0", "historyDataPeriod": "1h", "maxVRAMResourcesRatio": "2"}
    )
    found = policy_of(config)
    assert (found.target, found.margin, found.half_life_s, found.vram_ratios.most) == (AutoscaleTarget.VRAM, 0.0, 1800.0, 2.0)
    assert (found.compute, found.threshold, found.initial_delay_s) == (Policy().compute, 0.1, 1800.0)
    assert policy_of(AutoSetResources()) == Policy()
