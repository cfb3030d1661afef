"""Partitions follow what the scheduler wants, and nothing that is in use is ever touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_nvml import Fake

from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.partitions import Wanted, follow, wanted_of

Load = Callable[[Fake], Nvml]
PROFILES = (("1g.10gb", 0, 1, (0, 1, 2, 3, 4, 5, 6), 1), ("2g.20gb", 1, 2, (0, 2, 4), 2), ("3g.40gb", 2, 3, (0, 4), 4))


@pytest.fixture
def nvml(fake: Fake, loaded: Load) -> Nvml:
    fake.allow_mig(fake.add_card(), PROFILES)
    return loaded(fake)


def card(fake: Fake) -> str:
    return str(fake.cards[0].uuid.decode())


def names(found: object) -> list[tuple[str, int, str | None]]:
    return [(instance.template, instance.start, uid) for instance, uid in found.instances]  # type: ignore[attr-defined]


def test_what_is_wanted_is_made_and_told_with_its_pod(fake: Fake, nvml: Nvml) -> None:
    found = follow(nvml, card(fake), [Wanted("1g.10gb", 0, 1), Wanted("3g.40gb", 4, 4, "pod")])
    assert names(found) == [("1g.10gb", 0, None), ("3g.40gb", 4, "pod")]
    assert found.message == ""


def test_what_stays_wanted_keeps_its_uuid(fake: Fake, nvml: Nvml) -> None:
    first = follow(nvml, card(fake), [Wanted("1g.10gb", 0, 1), Wanted("1g.10gb", 1, 1)])
    second = follow(nvml, card(fake), [Wanted("1g.10gb", 1, 1), Wanted("3g.40gb", 4, 4)])
    assert names(second) == [("1g.10gb", 1, None), ("3g.40gb", 4, None)]
    assert second.instances[0][0].uuid == first.instances[1][0].uuid


def test_a_busy_instance_is_left_alone_told_of_and_replaced_when_it_is_idle(fake: Fake, nvml: Nvml) -> None:
    follow(nvml, card(fake), [Wanted("1g.10gb", 0, 1), Wanted("1g.10gb", 3, 1)])
    busy = next(each for each in fake.cards[0].instances if each.exists and each.start == 0)
    busy.busy = 1
    found = follow(nvml, card(fake), [Wanted("2g.20gb", 0, 2)])
    assert names(found) == [("1g.10gb", 0, None)]
    assert "1g.10gb at 0 is not removed" in found.message
    assert "2g.20gb at 0 is not made" in found.message
    busy.busy = 0
    found = follow(nvml, card(fake), [Wanted("2g.20gb", 0, 2)])
    assert (names(found), found.message) == ([("2g.20gb", 0, None)], "")


def test_one_that_cannot_be_made_hinders_no_other(fake: Fake, nvml: Nvml) -> None:
    found = follow(nvml, card(fake), [Wanted("9g.90gb", 0, 1), Wanted("1g.10gb", 6, 1)])
    assert names(found) == [("1g.10gb", 6, None)]
    assert "9g.90gb at 0 is not made" in found.message


def test_a_card_that_is_not_idle_is_not_partitioned_and_says_why(fake: Fake, nvml: Nvml) -> None:
    fake.add_process(fake.cards[0], 77)
    found = follow(nvml, card(fake), [Wanted("1g.10gb", 0, 1)])
    assert found.instances == ()
    assert "not made" in found.message


def test_the_wish_is_read_from_the_object() -> None:
    gpu = {"spec": {"partitions": [{"template": "1g.10gb", "start": 2, "size": 1, "podUID": "u"}]}}
    assert wanted_of(gpu) == (Wanted("1g.10gb", 2, 1, "u"),)
    assert wanted_of(None) == wanted_of({}) == wanted_of({"spec": {}}) == ()
