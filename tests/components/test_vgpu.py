"""VGPU: a frozen value of Inputs, one per annotation, and the way to annotations and back."""

from __future__ import annotations

import copy
import dataclasses
import re
from datetime import timedelta
from decimal import Decimal

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mocked import Run

from tensorfusion_iac import VGPU, SpecError
from tensorfusion_iac.api import FIELDS, Isolation, QoS, Vendor

P = "tensor-fusion.ai/"


def test_there_is_one_argument_per_annotation_and_enabled() -> None:
    assert [field.name for field in dataclasses.fields(VGPU)] == [*(row.argument for row in FIELDS), "enabled"]


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("tflops_request", 10, "10"),
        ("tflops_request", "10", "10"),
        ("tflops_limit", 0.5, "0.5"),
        ("tflops_limit", Decimal("312.5"), "312.5"),
        ("vram_request", "4Gi", "4Gi"),
        ("vram_limit", 4 * 2**30, "4294967296"),
        ("compute_percent_request", 12.5, "12.5"),
        ("inject_container", ["a", "b"], "a,b"),
        ("inject_container", "a, b", "a, b"),
        ("qos", QoS.HIGH, "high"),
        ("qos", "high", "high"),
        ("is_local_gpu", True, "true"),
        ("is_local_gpu", "false", "false"),
        ("gpu_count", 3, "3"),
        ("vendor", Vendor.NVIDIA, "NVIDIA"),
        ("isolation", Isolation.SOFT, "soft"),
        ("gpu_indices", [0, 1], "0,1"),
        ("container_gpu_count", {"trainer": 3, "evaluator": 1}, '{"trainer":3,"evaluator":1}'),
        ("eviction_protection", timedelta(minutes=90), "1h30m"),
        ("disable_features", ["gpu-opt"], "gpu-opt"),
    ],
)
def test_a_natural_value_becomes_the_annotations_text(argument: str, value: object, text: str) -> None:
    assert dict(VGPU(**{argument: value}).annotations()) == {P + argument.replace("_", "-"): text}


def test_an_output_becomes_an_output_of_its_text(run: Run) -> None:
    annotations: dict[str, pulumi.Input[str]] = {}

    def program() -> dict[str, pulumi.Input[str]]:
        vgpu = VGPU(
            tflops_request=pulumi.Output.from_input(10), container_gpu_count={"trainer": pulumi.Output.from_input(3)}, qos="low"
        )
        annotations.update(vgpu.annotations())
        return annotations

    assert run(program).outputs == {
        P + "tflops-request": "10",
        P + "container-gpu-count": '{"trainer":3}',
        P + "qos": "low",
    }
    assert annotations[P + "qos"] == "low"
    assert isinstance(annotations[P + "tflops-request"], pulumi.Output)


def test_the_annotations_are_read_only_and_in_the_tables_order() -> None:
    annotations = VGPU(qos="low", tflops_request=1).annotations()
    assert list(annotations) == [P + "tflops-request", P + "qos"]
    with pytest.raises(TypeError):
        annotations[P + "qos"] = "high"  # type: ignore[index]


@given(st.dictionaries(st.sampled_from([row.argument for row in FIELDS]), st.text(min_size=1, max_size=20)))
def test_annotations_there_and_back_keep_every_text(values: dict[str, str]) -> None:
    vgpu = VGPU(**values)  # type: ignore[arg-type]
    assert VGPU.from_annotations(vgpu.annotations()) == vgpu


def test_the_way_back_passes_over_what_is_not_the_users() -> None:
    read = VGPU.from_annotations({P + "qos": "low", P + "gpu-ids": "GPU-1", "example.com/qos": "high", P + "qoss": "x"})
    assert read == VGPU(qos="low")


def test_it_is_frozen_and_its_mappings_are_copies_that_nobody_can_change() -> None:
    counts = {"trainer": 3}
    vgpu = VGPU(container_gpu_count=counts, inject_container=["a"])
    counts["trainer"] = 4
    assert vgpu.annotations()[P + "container-gpu-count"] == '{"trainer":3}'
    with pytest.raises(dataclasses.FrozenInstanceError):
        vgpu.qos = "low"  # type: ignore[misc]
    with pytest.raises(TypeError):
        vgpu.container_gpu_count["trainer"] = 4  # type: ignore[index]
    assert not hasattr(vgpu, "__dict__")


def test_replace_and_copy_work() -> None:
    vgpu = VGPU(tflops_request=10, container_gpu_count={"a": 1})
    assert dataclasses.replace(vgpu, qos="low") == VGPU(tflops_request=10, container_gpu_count={"a": 1}, qos="low")
    assert copy.copy(vgpu) == vgpu


def test_its_repr_shows_what_is_given_and_never_an_output() -> None:
    async def program() -> str:
        hidden = pulumi.Output.secret("20Gi")
        return repr(
            VGPU(tflops_request=10, vram_request=hidden, qos=QoS.LOW, container_gpu_count={"a": hidden}, enabled=False)  # type: ignore[dict-item]
        )

    import asyncio

    shown = asyncio.run(program())
    assert shown == (
        "VGPU(tflops_request=10, vram_request=<output>, qos='low', container_gpu_count={'a': <output>}, enabled=False)"
    )


def test_a_misspelled_argument_is_one_sentence_with_the_nearest_name() -> None:
    with pytest.raises(SpecError) as refused:
        VGPU(tflop_request=10)  # type: ignore[call-arg]
    head, _, rest = str(refused.value).partition("\n")
    assert re.fullmatch(r"VGPU \(test_vgpu\.py:\d+\): 1 problem", head)
    assert rest == "  tflop_request: no such argument; did you mean tflops_request?"


@pytest.mark.parametrize("amount", ["tflops", "vram", "compute_percent"])
def test_an_amount_that_says_neither_is_taken_for_the_request(amount: str) -> None:
    with pytest.raises(SpecError, match=f"{amount}: no such argument; did you mean {amount}_request?"):
        VGPU(**{amount: 10})


def test_a_value_of_a_kind_that_an_annotation_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(SpecError) as refused:
        VGPU(qos=3, gpu_model=["A100"]).annotations()  # type: ignore[arg-type]
    assert str(refused.value) == (
        "VGPU: 2 problems\n  qos: 3 is not taken here; give text\n  gpu_model: a list is not taken here; give text"
    )
