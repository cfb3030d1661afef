"""The health of a card: what counts, what does not, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.agent.health import (
    APPLICATION_XIDS,
    CLEAN_PROBES,
    FAILED_PROBES,
    FATAL_XIDS,
    NOTED_XIDS,
    Health,
    Probe,
    State,
    after_probe,
    after_xid,
)

CLEAN = Probe(recovery_action=0, ecc_uncorrected=0)


def probed(health: Health, *probes: Probe) -> Health:
    for probe in probes:
        health = after_probe(health, probe)
    return health


@pytest.mark.parametrize("xid", sorted(APPLICATION_XIDS))
def test_a_fault_of_an_application_does_not_count(xid: int) -> None:
    assert after_xid(Health(), xid) == Health()


@pytest.mark.parametrize("xid", sorted(FATAL_XIDS))
def test_a_fatal_xid_makes_the_card_unhealthy_until_a_reset(xid: int) -> None:
    health = probed(after_xid(Health(), xid), *[CLEAN] * 20)
    assert (health.state, health.message) == (State.UNHEALTHY, f"XID {xid}")


@pytest.mark.parametrize("xid", sorted(NOTED_XIDS))
def test_a_noted_xid_is_told_and_the_card_stays_healthy(xid: int) -> None:
    health = after_xid(Health(), xid)
    assert (health.state, health.message) == (State.HEALTHY, f"XID {xid}")


@pytest.mark.parametrize("xid", [94, 7777])
def test_any_other_xid_makes_it_suspect_until_clean_probes(xid: int) -> None:
    health = after_xid(Health(), xid)
    assert health.state is State.SUSPECT
    assert probed(health, *[CLEAN] * (CLEAN_PROBES - 1)).state is State.SUSPECT
    assert probed(health, *[CLEAN] * CLEAN_PROBES) == Health(ecc_uncorrected=0)


@pytest.mark.parametrize(
    ("probe", "word"),
    [
        (Probe(lost=True), "lost"),
        (Probe(recovery_action=1), "GPU reset"),
        (Probe(recovery_action=2), "reboot"),
        (Probe(recovery_action=99), "99"),
        (Probe(remap_failed=True), "remap failed"),
    ],
)
def test_what_the_driver_says_counts_at_once(probe: Probe, word: str) -> None:
    health = after_probe(Health(), probe)
    assert health.state is State.UNHEALTHY
    assert word in health.message


def test_a_lost_card_comes_back_after_a_reset_and_clean_probes_only() -> None:
    lost = after_probe(Health(), Probe(lost=True))
    assert probed(lost, *[CLEAN] * 20).state is State.UNHEALTHY
    back = after_probe(lost, Probe(recovery_action=0, was_reset=True))
    assert back.state is State.RECOVERING
    assert probed(back, *[CLEAN] * (CLEAN_PROBES - 1)).state is State.HEALTHY


def test_the_end_of_a_recovery_action_is_a_reset_seen() -> None:
    health = after_xid(probed(Health(), Probe(recovery_action=1)), 79)
    assert probed(health, CLEAN).state is State.RECOVERING


def test_a_fault_while_recovering_starts_over() -> None:
    back = probed(Health(), Probe(recovery_action=1), CLEAN)
    assert back.state is State.RECOVERING
    assert after_xid(back, 94).state is State.UNHEALTHY
    assert after_probe(back, Probe(error="Unknown Error")).state is State.UNHEALTHY


def test_failing_probes_make_it_suspect_then_unhealthy() -> None:
    error = Probe(error="Unknown Error")
    states = [probed(Health(), *[error] * count).state for count in range(1, FAILED_PROBES + 1)]
    assert states == [State.SUSPECT] * (FAILED_PROBES - 1) + [State.UNHEALTHY]


def test_more_uncorrected_errors_than_before_make_it_suspect_and_old_ones_do_not() -> None:
    known = after_probe(Health(), Probe(recovery_action=0, ecc_uncorrected=5))
    assert known.state is State.HEALTHY
    assert after_probe(known, Probe(recovery_action=0, ecc_uncorrected=6)).state is State.SUSPECT


@pytest.mark.parametrize("probe", [Probe(slowed=True), Probe(remap_pending=True)])
def test_a_degraded_card_stays_healthy_and_says_so(probe: Probe) -> None:
    health = after_probe(Health(), probe)
    assert health.state is State.HEALTHY
    assert health.message
    assert after_probe(health, CLEAN).message == ""


EVENTS = st.one_of(
    st.sampled_from([13, 31, 48, 63, 79, 94, 1000]),
    st.builds(Probe, lost=st.booleans(), error=st.sampled_from(["", "x"]), recovery_action=st.sampled_from([None, 0, 1])),
)


@given(st.lists(EVENTS, max_size=30))
def test_nothing_but_clean_probes_ever_makes_a_bad_card_healthy(events: list[int | Probe]) -> None:
    health = Health()
    for event in events:
        before = health
        health = after_xid(health, event) if isinstance(event, int) else after_probe(health, event)
        if before.state is not State.HEALTHY and health.state is State.HEALTHY:
            assert isinstance(event, Probe)
            assert not event.lost
            assert not event.error
            assert before.state is not State.UNHEALTHY
