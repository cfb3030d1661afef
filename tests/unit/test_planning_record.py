"""What a bound pod's annotations say, and that the books can be read back from them (SPEC §2, §7)."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_values import GIB, TFLOPS, card

from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import claim_of
from tensorfusion_iac.planning.record import bind_annotations, effective_text, reservation_of, split
from tensorfusion_iac.planning.shares import CardShare, Reservation, Slot, reserve

PREFIX = "tensor-fusion.ai/"


def worker(**more: Any) -> WorkerSpec:
    plain = WorkerSpec(
        Mode.LOCAL, "p", "w", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
        compute_request=Compute(Unit.TFLOPS, Decimal(10)), vram_request_bytes=20 * GIB, vram_limit_bytes=20 * GIB,
    )  # fmt: skip
    return replace(plain, **more)


def bound(spec: WorkerSpec, *cards: CardFacts, slot: Slot | None = None, mig: dict[str, str] | None = None) -> dict[str, str]:
    chosen = tuple((each, slot) for each in cards)
    made = reserve(claim_of(spec), chosen, uid="u", namespace="ns", name="pod", priority=0)
    written = bind_annotations(spec, made, {each.uuid: each for each in cards}, mig or {})
    return {key.removeprefix(PREFIX): value for key, value in written.items()}


def test_a_container_gets_its_device_its_limit_and_its_fraction() -> None:
    written = bound(worker(), card("GPU-A", gib=80))
    assert written["gpu-ids"] == "GPU-A"
    assert written["visible-devices.app"] == "GPU-A"
    assert written["vram-limit-mib.app"] == "20480"
    assert written["vram-fraction.app"] == "0.25"
    assert json.loads(written["container-gpus"]) == {"app": ["GPU-A"]}
    assert "sm-percent.app" not in written
    assert "partition-ids" not in written


def test_containers_get_the_next_gpus_in_pod_order_and_an_init_container_sees_all() -> None:
    spec = worker(gpu_count=4, containers=("setup", "side", "one", "two"), container_gpus={"side": 1, "one": 0, "two": 3})
    cards = [card(f"GPU-{at}") for at in range(4)]
    written = bound(spec, *cards)
    assert split(spec) == {"setup": (0, 1, 2, 3), "side": (0,), "one": (), "two": (1, 2, 3)}
    assert written["gpu-ids.side"] == "GPU-0"
    assert written["visible-devices.two"] == "GPU-1,GPU-2,GPU-3"
    assert written["visible-devices.setup"] == "GPU-0,GPU-1,GPU-2,GPU-3"
    assert "visible-devices.one" not in written  # admission told it already that it has none
    assert json.loads(written["container-gpus"])["one"] == []


def test_containers_without_a_split_share_all_gpus() -> None:
    spec = worker(gpu_count=2, containers=("one", "two"))
    assert split(spec) == {"one": (0, 1), "two": (0, 1)}


def test_the_sidecar_of_a_standalone_worker_has_the_devices() -> None:
    written = bound(worker(mode=Mode.STANDALONE), card("GPU-A"))
    assert written["visible-devices.tensor-fusion-worker"] == "GPU-A"
    assert "visible-devices.app" not in written


@pytest.mark.parametrize(
    ("limit_gib", "usable_bytes", "fraction"),
    [(20, 80 * GIB, "0.25"), (24, 80 * GIB - 1, "0.3"), (1, 3 * GIB, "0.3333"), (80, 80 * GIB, "1"), (90, 80 * GIB, "1")],
)
def test_the_fraction_is_of_what_is_usable_and_never_above_the_limit(limit_gib: int, usable_bytes: int, fraction: str) -> None:
    spec = worker(vram_limit_bytes=limit_gib * GIB)
    written = bound(spec, replace(card("GPU-A"), capacity_vram_bytes=usable_bytes))
    assert written["vram-fraction.app"] == fraction


def test_the_fraction_is_that_of_the_largest_card_where_they_differ() -> None:
    written = bound(worker(gpu_count=2), card("GPU-A", gib=40), card("GPU-B", gib=80))
    assert written["vram-fraction.app"] == "0.25"


def test_where_the_driver_shows_the_limit_as_the_total_the_fraction_is_one() -> None:
    assert bound(worker(), card("GPU-A", vram_seen=True))["vram-fraction.app"] == "1"


def test_without_a_memory_limit_the_whole_card_is_there() -> None:
    written = bound(worker(vram_request_bytes=None, vram_limit_bytes=None), card("GPU-A", gib=80))
    assert written["vram-limit-mib.app"] == "81920"
    assert written["vram-fraction.app"] == "1"


@pytest.mark.parametrize(("tflops", "percent"), [("50", "50"), ("0.001", "1"), ("33.4", "34"), (None, "100")])
def test_isolation_hard_names_its_share_of_the_processors(tflops: str | None, percent: str) -> None:
    limit = None if tflops is None else Compute(Unit.TFLOPS, Decimal(tflops))
    written = bound(worker(isolation=Isolation.HARD, compute_limit=limit), card("GPU-A", tflops=100))
    assert written["sm-percent.app"] == percent


def test_a_partition_is_named_by_its_own_uuid() -> None:
    spec = worker(isolation=Isolation.PARTITIONED, partition_template="1g.10gb")
    written = bound(spec, card("GPU-A", gib=80), slot=Slot("1g.10gb", 6, 1, 1), mig={"GPU-A": "MIG-X"})
    assert written["partition-ids"] == "MIG-X"
    assert written["visible-devices.app"] == "MIG-X"
    assert written["gpu-ids"] == "GPU-A"
    assert written["vram-limit-mib.app"] == "10240"
    assert written["vram-fraction.app"] == "1"


@pytest.mark.parametrize(
    ("vendor", "model", "visible"),
    [(Vendor.AMD, "MI300X", "3"), (Vendor.ASCEND, "910B", "3"), (Vendor.AWS_NEURON, "Trainium1", "6,7")],
)
def test_each_vendor_names_devices_in_its_own_way(vendor: Vendor, model: str, visible: str) -> None:
    spec = worker(vendor=vendor)
    assert bound(spec, card("X", vendor=vendor, model=model, index=3, geometry=None))["visible-devices.app"] == visible


amounts = st.integers(0, 10**11)
shares = st.builds(
    CardShare, st.sampled_from(["GPU-A", "GPU-B"]), amounts, amounts, amounts, amounts, st.integers(0, 10**6),
    st.integers(0, 10**6), amounts, amounts, st.none() | st.just(Slot("2g.20gb", 2, 2, 2)),
)  # fmt: skip


@given(st.lists(shares, min_size=1, max_size=8), st.booleans())
def test_the_books_are_read_back_as_they_were_written(held: list[CardShare], exclusive: bool) -> None:
    before = Reservation("u", "ns", "pod", "n", Isolation.SOFT, False, exclusive, tuple(held), 5)
    after = reservation_of(worker(), effective_text(before), uid="u", namespace="ns", name="pod", node="n", priority=5)
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"version":1}',
        '{"version":2,"cards":[]}',
        '{"version":1,"cards":[1]}',
        '{"version":1,"cards":[{"id":"g","requests":{"tflops":"-1","vram":1,"percent":"1"}}]}',
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not effective amounts|Expecting"):
        reservation_of(worker(), text, uid="u", namespace="ns", name="pod", node="n", priority=0)


def test_tflops_survive_in_full() -> None:
    made = reserve(
        claim_of(worker(compute_request=Compute(Unit.PERCENT, Decimal("33.3333")))), ((card("GPU-A", tflops=312), None),),
        uid="u", namespace="ns", name="pod", priority=0,
    )  # fmt: skip
    assert made.shares[0].mflops == 103_999_896
    assert made.shares[0].limit_mflops == 312 * TFLOPS
