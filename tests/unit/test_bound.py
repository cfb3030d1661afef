"""What `explain` says of a bound pod's cards."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import observed_cluster as cluster

from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, Partition, to_text
from tensorfusion_iac.operations.bound import held_by

GIB = 2**30
GPU = {"kind": "GPU"} | cluster.gpu(3)
SMALL, LARGE = Amount(Decimal(10), 4 * GIB, Decimal(3)), Amount(Decimal("20.5"), 4 * GIB, Decimal(6))


def pod(effective: str, uid: str = "u") -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"uid": uid, "annotations": {"tensor-fusion.ai/effective": effective}}}


def told(*cards: EffectiveCard, exclusive: bool = False) -> list[str]:
    held = held_by({"u"}, [GPU, pod(to_text(Effective(cards, exclusive=exclusive)))])
    return [card.text() for card in held["u"]]


def test_each_card_has_its_index_its_model_and_the_amounts() -> None:
    assert told(EffectiveCard("GPU-node-1-3", SMALL, LARGE), EffectiveCard("GPU-gone", SMALL, SMALL)) == [
        "GPU 3 L40S (GPU-node-1-3): 10 to 20.5 TFLOPS, 4Gi VRAM",
        "GPU ? (GPU-gone): 10 TFLOPS, 4Gi VRAM",
    ]


def test_a_partition_is_named_with_its_place_and_a_whole_card_as_such() -> None:
    part = EffectiveCard("GPU-node-1-3", SMALL, SMALL, partition=Partition("1g.10gb", 2, 1, 1))
    assert told(part) == ["GPU 3 L40S (GPU-node-1-3): MIG 1g.10gb at memory slot 2, 10 TFLOPS, 4Gi VRAM"]
    assert told(EffectiveCard("GPU-node-1-3", SMALL, SMALL), exclusive=True) == ["GPU 3 L40S (GPU-node-1-3): the whole card"]


def test_programs_get_numbers() -> None:
    (held,) = held_by({"u"}, [GPU, pod(to_text(Effective((EffectiveCard("GPU-node-1-3", SMALL, LARGE),))))])["u"]
    assert held.record() == {
        "uuid": "GPU-node-1-3", "index": 3, "model": "L40S", "exclusive": False, "partition": None,
        "requests": {"tflops": 10.0, "vramBytes": 4 * GIB}, "limits": {"tflops": 20.5, "vramBytes": 4 * GIB},
    }  # fmt: skip


def test_a_pod_that_does_not_tell_has_none() -> None:
    assert held_by({"u", "gone"}, [GPU, pod("{}")]) == {"u": [], "gone": []}
