"""Vendors: the closed set, its spellings, and how devices are shown to containers (SPEC §2, §7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.vendors import (
    DEVICES,
    DeviceForm,
    Reader,
    Vendor,
    parse_vendor,
    vendor_of_resource,
    visible_devices,
)

SPEC_VENDORS = (
    "NVIDIA", "AMD", "Ascend", "Intel", "Hygon", "MetaX", "MThreads", "Cambricon", "Enflame", "Qualcomm", "Cerebras",
    "AWSNeuron", "Google",
)  # fmt: skip


def test_the_vendors_are_those_of_the_format() -> None:
    assert tuple(vendor.value for vendor in Vendor) == SPEC_VENDORS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVIDIA", Vendor.NVIDIA),
        ("nvidia", Vendor.NVIDIA),
        ("MooreThreads", Vendor.MTHREADS),
        ("moorethreads", Vendor.MTHREADS),
        ("awsneuron", Vendor.AWS_NEURON),
        ("nvida", None),
        (" NVIDIA", None),
        ("", None),
    ],
)
def test_a_vendor_is_read_in_any_case_and_exactly(text: str, expected: Vendor | None) -> None:
    assert parse_vendor(text) is expected


@given(st.sampled_from(Vendor), st.randoms(use_true_random=False))
def test_any_mix_of_cases_reads_as_the_same_vendor(vendor: Vendor, random: object) -> None:
    choice = random.choice  # type: ignore[attr-defined]
    assert parse_vendor("".join(choice((letter.lower(), letter.upper())) for letter in vendor.value)) is vendor


def test_every_vendor_has_a_row_and_every_entry_a_source() -> None:
    assert set(DEVICES) == set(Vendor)
    for vendor, row in DEVICES.items():
        assert row.resource_source, vendor
        assert all(item.source for item in row.visible), vendor


def test_the_variable_of_a_container_runtime_comes_first() -> None:
    for vendor, row in DEVICES.items():
        readers = [item.reader for item in row.visible]
        assert readers == sorted(readers, key=[Reader.RUNTIME, Reader.LIBRARY].index), vendor


def test_no_variable_and_no_resource_belongs_to_two_vendors() -> None:
    variables = [item.variable for row in DEVICES.values() for item in row.visible]
    resources = [name for row in DEVICES.values() for name in row.resources]
    assert len(set(variables)) == len(variables)
    assert len(set(resources)) == len(resources)


def test_nvidia_devices_are_named_by_uuid_and_hidden_by_void() -> None:
    found = visible_devices(Vendor.NVIDIA)
    assert found is not None
    assert (found.variable, found.form, found.none) == ("NVIDIA_VISIBLE_DEVICES", DeviceForm.UUID, "void")


def test_a_vendor_without_devices_in_a_container_has_no_variable() -> None:
    assert visible_devices(Vendor.CEREBRAS) is None


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("nvidia.com/gpu", Vendor.NVIDIA),
        ("amd.com/gpu", Vendor.AMD),
        ("huawei.com/Ascend910", Vendor.ASCEND),
        ("aws.amazon.com/neuron", Vendor.AWS_NEURON),
        ("aws.amazon.com/neuroncore", None),
        ("nvidia.com/mig-1g.10gb", None),
        ("cpu", None),
    ],
)
def test_a_native_resource_of_whole_devices_names_its_vendor(resource: str, expected: Vendor | None) -> None:
    assert vendor_of_resource(resource) is expected
