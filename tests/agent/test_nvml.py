"""The agent's reader of cards, through the real pynvml: every answer that drivers give, and every way in which they fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_nvml import GPU_IS_LOST, KIND_MPS, Fake

from tensorfusion_iac.agent.driver import NO_LIMIT, CardProcess, DriverError, Instance
from tensorfusion_iac.agent.health import Health, Probe, State, after_probe
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.samples import Sample

Load = Callable[[Fake], Nvml]
A100 = (
    ("1g.10gb", 0, 1, (0, 1, 2, 3, 4, 5, 6), 1), ("2g.20gb", 1, 2, (0, 2, 4), 2), ("3g.40gb", 2, 3, (0, 4), 4),
    ("7g.80gb", 4, 7, (0,), 8),
)  # fmt: skip


def uuid(fake: Fake, index: int = 0) -> str:
    return str(fake.cards[index].uuid.decode())


def test_cards_have_their_facts(fake: Fake, loaded: Load) -> None:
    first, second = fake.add_card(numa_node=1), fake.add_card("NVIDIA L40S", 48, numa_node=-1)
    for link in range(4):
        first.links[link].value = second.bus_id
        second.links[link].value = first.bus_id
    cards = loaded(fake).cards()
    assert [(card.index, card.product, card.numa_node) for card in cards] == [
        (0, "NVIDIA A100-SXM4-80GB", 1),
        (1, "NVIDIA L40S", None),
    ]
    assert cards[0].usable_bytes == 80 * 2**30 - 600 * 2**20
    assert cards[0].peers == ((uuid(fake, 1), 4),)
    assert not cards[0].can_partition


def test_a_card_that_is_lost_from_the_start_hides_no_other(fake: Fake, loaded: Load) -> None:
    fake.add_card().error = GPU_IS_LOST
    fake.add_card("Tesla T4", 16)
    nvml = loaded(fake)
    assert [card.product for card in nvml.cards()] == ["Tesla T4"]
    assert nvml.used_bytes(uuid(fake, 1)) == 0


def test_a_card_that_gets_lost_stays_in_the_list_and_comes_back_after_a_reset(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    fake.add_card("Tesla T4", 16)
    nvml, health = loaded(fake), Health()
    card.error = GPU_IS_LOST
    health = after_probe(health, nvml.probe(uuid(fake)))
    assert health.state is State.UNHEALTHY
    assert [each.index for each in nvml.cards()] == [0, 1]
    with pytest.raises(DriverError) as failure:
        nvml.processes(uuid(fake))
    assert failure.value.lost
    fake.reset_card(card)
    assert nvml.probe(uuid(fake)).lost  # its handle is from before the reset
    nvml.restart()
    probe = nvml.probe(uuid(fake))
    assert probe == Probe(recovery_action=0, ecc_uncorrected=0, was_reset=True)
    assert after_probe(health, probe).state is State.RECOVERING


def test_processes_of_cuda_and_of_mps(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    fake.add_process(card, 101, 5)
    fake.add_process(card, 102, 6, KIND_MPS)
    assert sorted(loaded(fake).processes(uuid(fake)), key=lambda each: each.pid) == [
        CardProcess(101, 5), CardProcess(102, 6, by_mps=True),
    ]  # fmt: skip


def test_500_processes_are_read_at_once(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    for number in range(500):
        fake.add_process(card, 1000 + number, 2**20)
        fake.add_sample(card, 1000 + number, 1, 5)
    nvml = loaded(fake)
    assert len(nvml.processes(uuid(fake))) == 500
    assert len(nvml.samples(uuid(fake), 0)) == 500


@pytest.mark.parametrize("idle_success", [0, 1])
def test_an_idle_card_has_no_samples_whatever_the_driver_calls_it(fake: Fake, loaded: Load, idle_success: int) -> None:
    fake.add_card().idle_success = idle_success
    assert list(loaded(fake).samples(uuid(fake), 0)) == []


def test_garbage_utilisation_passes_the_reader_and_is_dropped_by_the_meter(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    fake.add_sample(card, 7, 4294967295, 5)
    assert loaded(fake).samples(uuid(fake), 0) == [Sample(7, 5, 4294967295)]  # test_agent_samples drops it


def test_what_a_driver_does_not_have_is_none_and_no_failure(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    card.recovery_supported = 0
    for call in (
        "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo_v2",
    ):  # fmt: skip
        fake.answer(call, 3)
    nvml = loaded(fake)
    assert nvml.busy_percent(uuid(fake)) is None
    assert nvml.probe(uuid(fake)) == Probe()
    assert nvml.cards()[0].usable_bytes == 80 * 2**30


@pytest.mark.parametrize(
    ("field", "value", "probe"),
    [
        ("recovery_action", 2, Probe(recovery_action=2, ecc_uncorrected=0)),
        ("ecc_uncorrected", 3, Probe(recovery_action=0, ecc_uncorrected=3)),
        ("clocks_reasons", 0x40, Probe(recovery_action=0, ecc_uncorrected=0, slowed=True)),
        ("clocks_reasons", 0x4, Probe(recovery_action=0, ecc_uncorrected=0)),  # a power cap is nothing bad
        ("error", 999, Probe(error="fake error 999")),
    ],
)
def test_a_probe_says_what_the_card_says(fake: Fake, loaded: Load, field: str, value: int, probe: Probe) -> None:
    card = fake.add_card()
    nvml = loaded(fake)
    setattr(card, field, value)
    assert replace(nvml.probe(uuid(fake)), error=probe.error) == probe


def test_rows_that_could_not_be_remapped_are_told(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    nvml = loaded(fake)
    card.remapped[2] = card.remapped[3] = 1
    probe = nvml.probe(uuid(fake))
    assert (probe.remap_pending, probe.remap_failed) == (True, True)


def test_an_xid_is_told_with_its_card(fake: Fake, loaded: Load) -> None:
    fake.add_card()
    fake.add_card()
    nvml = loaded(fake)
    assert nvml.wait_xid(0.01) is None
    fake.add_xid(1, 79)
    assert nvml.wait_xid(1) == (uuid(fake, 1), 79)


def test_an_xid_of_a_card_that_is_gone_is_told_too(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    nvml = loaded(fake)
    card.error = GPU_IS_LOST
    fake.add_xid(0, 79)
    assert nvml.wait_xid(1) == (uuid(fake), 79)


def test_a_memory_limit_is_set_read_back_and_cleared(fake: Fake, loaded: Load, node: object) -> None:
    card = fake.add_card()
    nvml, path = loaded(fake), "/sys/fs/cgroup"
    assert nvml.can_limit_memory(uuid(fake))
    nvml.limit_memory(uuid(fake), path, 2, 3)
    assert nvml.memory_limit(uuid(fake), path) == (2, 3)
    assert fake.limits(card) == {path: (2, 3)}
    nvml.limit_memory(uuid(fake), path, 0, NO_LIMIT)
    assert fake.limits(card) == {}


def test_a_driver_without_memory_limits_says_so(old_fake: Fake, loaded: Load) -> None:
    old_fake.add_card()
    nvml = loaded(old_fake)
    assert not nvml.can_limit_memory(uuid(old_fake))
    with pytest.raises(DriverError) as failure:
        nvml.limit_memory(uuid(old_fake), "/sys/fs/cgroup", 0, 1)
    assert failure.value.unsupported


def test_the_compute_mode_is_set_and_read_back(fake: Fake, loaded: Load) -> None:
    fake.add_card()
    nvml = loaded(fake)
    assert not nvml.exclusive(uuid(fake))
    nvml.set_exclusive(uuid(fake))
    assert nvml.exclusive(uuid(fake))
    nvml.set_shared(uuid(fake))
    assert not nvml.exclusive(uuid(fake))


def test_instances_are_made_at_their_placement_by_name_and_removed(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    fake.allow_mig(card, A100, first_id=19)
    nvml = loaded(fake)
    assert nvml.cards()[0].can_partition
    made = [nvml.create_instance(uuid(fake), name, start, size) for name, start, size in (("3g.40gb", 4, 4), ("1g.10gb", 0, 1))]
    assert nvml.cards()[0].partitioned
    assert sorted(nvml.instances(uuid(fake)), key=lambda each: each.start) == [made[1], made[0]]
    assert len({each.uuid for each in made}) == 2
    nvml.destroy_instance(uuid(fake), made[0])
    assert list(nvml.instances(uuid(fake))) == [made[1]]


def test_a_placement_that_is_taken_is_refused_and_leaves_nothing(fake: Fake, loaded: Load) -> None:
    fake.allow_mig(fake.add_card(), A100)
    nvml = loaded(fake)
    first = nvml.create_instance(uuid(fake), "3g.40gb", 0, 4)
    with pytest.raises(DriverError):
        nvml.create_instance(uuid(fake), "2g.20gb", 2, 2)
    assert list(nvml.instances(uuid(fake))) == [first]


def test_an_instance_in_use_is_never_removed(fake: Fake, loaded: Load) -> None:
    card = fake.add_card()
    fake.allow_mig(card, A100)
    nvml = loaded(fake)
    made = nvml.create_instance(uuid(fake), "1g.10gb", 3, 1)
    next(each for each in card.instances if each.exists).busy = 1
    with pytest.raises(DriverError):
        nvml.destroy_instance(uuid(fake), made)
    assert [each.uuid for each in nvml.instances(uuid(fake))] == [made.uuid]


def test_an_unknown_profile_is_unsupported(fake: Fake, loaded: Load) -> None:
    fake.allow_mig(fake.add_card(), A100)
    with pytest.raises(DriverError) as failure:
        loaded(fake).create_instance(uuid(fake), "9g.90gb", 0, 1)
    assert failure.value.unsupported


def test_removing_an_instance_that_is_gone_is_fine(fake: Fake, loaded: Load) -> None:
    fake.allow_mig(fake.add_card(), A100)
    nvml = loaded(fake)
    made = nvml.create_instance(uuid(fake), "1g.10gb", 0, 1)
    nvml.destroy_instance(uuid(fake), made)
    nvml.destroy_instance(uuid(fake), Instance("1g.10gb", 0, 1, made.uuid))
