"""Water-filling: worked examples, and the laws that hold for any tenants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.levels import QoS
from tensorfusion_iac.planning.share import CAPACITY, CREDIT_MOST_S, FLOOR, Tenant, credit_after, entitled

SMALL = 1e-6


def hungry(key: str, request: float, limit: float, qos: QoS = QoS.MEDIUM, credit_s: float = CREDIT_MOST_S) -> Tenant:
    return Tenant(key, request, limit, qos, use=0.9, throttled=True, credit_s=credit_s)


def using(key: str, request: float, limit: float, use: float, qos: QoS = QoS.MEDIUM) -> Tenant:
    return Tenant(key, request, limit, qos, use, throttled=False)


CASES = {
    "three by QoS, all hungry": (
        [hungry("a", 0.3, 1.0, QoS.CRITICAL), hungry("b", 0.2, 0.5), hungry("c", 0.2, 0.4, QoS.LOW)],
        {"a": 0.504, "b": 0.251, "c": 0.225},
    ),
    "what the critical one leaves goes to the others": (
        [using("a", 0.3, 1.0, 0.07, QoS.CRITICAL), hungry("b", 0.2, 0.5), hungry("c", 0.2, 0.4, QoS.LOW)],
        {"a": 0.1005, "b": 0.50, "c": 0.3795},
    ),
    "limits hold although the card is idle": ([hungry("a", 0.1, 0.3)], {"a": 0.3}),
    "30 and 70 keep their ratio": ([hungry("a", 0.3, 0.3), hungry("b", 0.7, 0.7)], {"a": 0.294, "b": 0.686}),
    "10 and 90 keep their ratio": ([hungry("a", 0.1, 0.1), hungry("b", 0.9, 0.9)], {"a": 0.098, "b": 0.882}),
    "too much requested: the higher QoS first, a floor for the lower": (
        [hungry("a", 0.8, 1.0, QoS.HIGH), hungry("b", 0.8, 1.0, QoS.LOW)],
        {"a": 0.80, "b": 0.18},
    ),
    "a floor is left even by one that asks for all": (
        [hungry("a", 1.0, 1.0, QoS.HIGH), hungry("b", 0.5, 1.0, QoS.LOW)],
        {"a": 0.93, "b": 0.05},
    ),
    "without credit the weight is half": (
        [hungry("a", 0.0, 1.0), hungry("b", 0.0, 1.0, credit_s=0.0)],
        {"a": CAPACITY * 2 / 3, "b": CAPACITY / 3},
    ),
    "nobody": ([], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_card_is_shared_out_as_the_example_says(case: str) -> None:
    tenants, wanted = CASES[case]
    assert entitled(tenants) == pytest.approx(wanted, abs=0.002)


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    found = []
    for number in range(draw(st.integers(1, 30))):
        request, limit = sorted((draw(st.floats(0, 1)), draw(st.floats(0.001, 1))))
        qos, use, throttled = draw(st.sampled_from(QoS)), draw(st.floats(0, 1)), draw(st.booleans())
        found.append(Tenant(str(number), request, limit, qos, use, throttled, draw(st.sampled_from([0.0, CREDIT_MOST_S]))))
    return found


@given(tenants())
def test_never_more_than_there_is_nor_than_a_limit_nor_than_is_wanted(them: list[Tenant]) -> None:
    granted = entitled(them)
    assert sum(granted.values()) <= CAPACITY + SMALL
    assert all(-SMALL <= granted[each.key] <= min(each.limit, each.wanted) + SMALL for each in them)


@given(tenants())
def test_nothing_is_left_while_somebody_wants_it(them: list[Tenant]) -> None:
    wanted = sum(each.wanted for each in them)
    assert sum(entitled(them).values()) == pytest.approx(min(wanted, CAPACITY), abs=1e-5)


@given(tenants())
def test_requests_that_fit_together_are_kept(them: list[Tenant]) -> None:
    asked = {each.key: min(each.request, each.wanted) for each in them}
    if sum(asked.values()) <= CAPACITY:
        granted = entitled(them)
        assert all(granted[key] >= amount - SMALL for key, amount in asked.items())


@given(tenants())
def test_each_that_wants_it_has_at_least_the_floor(them: list[Tenant]) -> None:
    granted = entitled(them)
    floor = min(FLOOR, CAPACITY / len(them))
    assert all(granted[each.key] >= min(floor, each.request, each.wanted) - SMALL for each in them)


@given(tenants())
def test_the_order_of_tenants_does_not_matter(them: list[Tenant]) -> None:
    assert entitled(them[::-1]) == pytest.approx(entitled(them), abs=1e-6)


@given(st.floats(0.01, 0.4), st.floats(0.5, 1), st.sampled_from([(QoS.LOW, QoS.MEDIUM), (QoS.MEDIUM, QoS.HIGH)]))
def test_of_two_alike_the_higher_qos_gets_more(request: float, limit: float, pair: tuple[QoS, QoS]) -> None:
    granted = entitled([hungry("low", request, limit, pair[0]), hungry("high", request, limit, pair[1])])
    assert granted["high"] >= granted["low"] - SMALL


@given(st.floats(0, CREDIT_MOST_S), st.floats(0, 1), st.floats(0, 1), st.floats(0, 100))
def test_credit_grows_below_the_request_and_is_spent_above_it(credit: float, request: float, use: float, elapsed: float) -> None:
    after = credit_after(credit, request, use, elapsed)
    assert 0 <= after <= CREDIT_MOST_S
    assert after >= credit if use <= request else after <= credit
