"""What must hold of every driver and card, asked of the real library: the seam that all of the agent's decisions rest on.

`make test-gpu`. The limits themselves are proven under the simulated library (tests/agent), where the load is known.
"""

from __future__ import annotations

import time

from tensorfusion_iac.agent.capabilities import card_capabilities
from tensorfusion_iac.agent.cgroups import Cgroups
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.api.catalogue import find


def test_every_card_has_its_facts(driver: Nvml) -> None:
    cards = driver.cards()
    assert cards, "the driver lists no card"
    assert [card.index for card in cards] == sorted({card.index for card in cards})
    assert len({card.uuid for card in cards}) == len(cards)
    for card in cards:
        assert card.uuid.startswith("GPU-")
        assert card.usable_bytes > 2**30
        assert driver.version


def test_every_card_is_known_to_the_catalogue(driver: Nvml) -> None:
    unknown = [card.product for card in driver.cards() if not find(card.product)]
    assert unknown == [], "add them to tensorfusion_iac/api/catalogue"


def test_use_is_read_and_is_within_bounds(driver: Nvml) -> None:
    for card in driver.cards():
        assert 0 <= driver.used_bytes(card.uuid) <= card.usable_bytes + 4 * 2**30
        busy = driver.busy_percent(card.uuid)
        assert busy is None or 0 <= busy <= 100
        for process in driver.processes(card.uuid):
            assert process.pid > 0
        if not card.partitioned:
            for _ in range(4):
                assert all(0 <= sample.percent <= 100 for sample in driver.samples(card.uuid, 0) if sample.percent < 2**31)
                time.sleep(0.125)


def test_a_healthy_card_passes_its_probe(driver: Nvml) -> None:
    for card in driver.cards():
        probe = driver.probe(card.uuid)
        assert not probe.lost
        assert not probe.error


def test_capabilities_are_told_and_nothing_is_changed_by_asking(driver: Nvml) -> None:
    for card in driver.cards():
        exclusive = driver.exclusive(card.uuid)
        told = card_capabilities(driver, card, Cgroups(), has_mps=False).as_status()
        assert told["driverVersion"] == driver.version
        assert told["vramLimit"] in ("driver", "watch")
        assert driver.exclusive(card.uuid) == exclusive
