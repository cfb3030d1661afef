"""The GPU catalogue: its content, what a `gpu-model` value means, MIG placements, the reference page (SPEC §2, §6)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.catalogue import (
    GpuModel,
    MigGeometry,
    by_driver_name,
    catalogue,
    did_you_mean,
    find,
    matches,
    mig_template,
    nearest,
    profile_name,
    vendor_of,
)
from tensorfusion_iac.api.catalogue.render import render_models_markdown
from tensorfusion_iac.api.vendors import Vendor

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "gpu-models.md"
MIG_MODELS = [model for model in catalogue() if model.mig is not None]


def model(name: str) -> GpuModel:
    found = [item for item in catalogue() if item.name == name]
    assert len(found) == 1, name
    return found[0]


def names(value: str) -> set[str]:
    return {item.name for item in find(value)}


def geometry(of: GpuModel) -> MigGeometry:
    assert of.mig is not None
    return of.mig


# What is in it


def test_at_least_forty_models_of_every_vendor_of_the_format() -> None:
    assert len(catalogue()) >= 40
    assert {item.vendor for item in catalogue()} == set(Vendor)


def test_every_model_has_figures_and_a_source() -> None:
    for item in catalogue():
        assert item.fp16_tflops > 0, item.name
        assert item.nominal_vram_bytes > 0, item.name
        assert item.nominal_vram_bytes % 2**30 == 0, item.name
        assert item.source.strip(), item.name
        assert item.usd_per_hour is None or item.usd_per_hour > 0, item.name


def test_a_price_comes_only_with_a_source_that_has_prices() -> None:
    priced = {item.source for item in catalogue() if item.usd_per_hour is not None}
    assert all(source.startswith("TensorFusion chart") for source in priced)


def test_no_two_models_share_a_name_an_alias_or_a_driver_name() -> None:
    # A name may repeat within one model (its driver name in another case), never across models.
    owned = [key for item in catalogue() for key in {name.casefold() for name in (item.name, *item.aliases, *item.driver_names)}]
    assert [key for key, count in Counter(owned).items() if count > 1] == []


def test_a_family_is_no_alias_of_a_model_outside_it() -> None:
    families = {item.family.casefold() for item in catalogue()}
    strangers = [
        (item.name, name)
        for item in catalogue()
        for name in (item.name, *item.aliases)
        if name.casefold() in families and name.casefold() != item.family.casefold()
    ]
    assert strangers == []


@pytest.mark.parametrize(
    ("name", "tflops", "gib", "price"),
    [
        ("A100_SXM_80G", "312", 80, "1.89"),
        ("T4", "65", 16, "0.3"),
        ("L4", "121", 24, "0.43"),
        ("H100_SXM", "989", 80, "2.99"),
        ("RTX4090", "165.16", 24, "0.3"),
        ("RTX_5090", "419.2", 32, "0.89"),
        ("B200_SXM", "2250", 180, "6.39"),
        ("MI300X", "1307.4", 192, "None"),
        ("Trainium2", "667", 96, "None"),
    ],
)
def test_figures_of_the_public_table_and_of_datasheets(name: str, tflops: str, gib: int, price: str) -> None:
    found = model(name)
    assert (str(found.fp16_tflops), found.nominal_vram_gib, str(found.usd_per_hour)) == (tflops, gib, price)


# What a gpu-model value means


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("A100", {"A100_SXM_80G", "A100_SXM_40G", "A100_PCIe_80G", "A100_PCIe_40G"}),
        ("a100_sxm_80g", {"A100_SXM_80G"}),
        ("NVIDIA A100-SXM4-80GB", {"A100_SXM_80G"}),
        ("A100_PCIe_40GB", {"A100_PCIe_40G"}),
        ("L40s", {"L40S"}),
        ("l40", {"L40"}),
        ("L4", {"L4"}),
        ("V100", {"V100_SXM_16G", "V100_SXM_32G", "V100_PCIe_16G", "V100_PCIe_32G"}),
        ("V100S", {"V100S"}),
        ("H100", {"H100_SXM", "H100_PCIe", "H100_NVL"}),
        ("H200", {"H200", "H200_NVL"}),
        ("H200_SXM", {"H200"}),
        ("RTX_4090", {"RTX4090"}),
        ("RTX5090", {"RTX_5090"}),
        ("RTX_5090D", {"RTX_5090D"}),
        ("ascend910b", {"Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4"}),
        ("H10", set()),
        ("A100_", set()),
        ("", set()),
        ("unheard-of", set()),
    ],
)
def test_a_value_means_a_model_an_alias_or_a_family_and_never_a_prefix(value: str, expected: set[str]) -> None:
    assert names(value) == expected


@pytest.mark.parametrize(
    ("wanted", "card", "expected"),
    [
        ("A100", "A100_SXM_80G", True),
        ("A100", "A100_PCIe_40G", True),
        ("A100", "NVIDIA A100 80GB PCIe", True),
        ("A100", "A800_SXM_80G", False),
        ("L40s", "L40S", True),
        ("L40s", "L40", False),
        ("L40", "L40S", False),
        ("H200_NVL", "H200", False),
        ("A100_SXM_80G", "A100_SXM_40G", False),
        ("next-gen", "Next-Gen", True),
        ("next-gen", "Next-Gen-2", False),
        ("next-gen", "A100_SXM_80G", False),
        ("A100", "next-gen", False),
    ],
)
def test_a_card_matches_what_is_asked_for(wanted: str, card: str, expected: bool) -> None:
    assert matches(wanted, card) is expected


SPELLINGS = st.sampled_from([
    name for item in catalogue() for name in (item.name, item.family, *item.aliases, *item.driver_names)
])  # fmt: skip


@given(SPELLINGS, st.randoms(use_true_random=False))
def test_case_never_matters(name: str, random: object) -> None:
    choice = random.choice  # type: ignore[attr-defined]
    other = "".join(choice((letter.lower(), letter.upper())) for letter in name)
    assert find(name)
    assert find(other) == find(name)


@given(st.sampled_from(catalogue()))
def test_every_model_is_found_by_each_of_its_names_and_matches_itself(item: GpuModel) -> None:
    for name in (item.name, *item.aliases, *item.driver_names):
        assert item in find(name)
        assert matches(item.family, name)
        assert matches(name, item.name)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_answered_and_unknown_models_equal_only_themselves(wanted: str, card: str) -> None:
    assert matches(card, card)
    if not find(wanted) and not find(card):
        assert matches(wanted, card) is (wanted.casefold() == card.casefold())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("A100_SXM_80", "did you mean A100_SXM_80G?"),
        ("H1000", "did you mean H100?"),
        ("rtx-4090", "did you mean RTX4090?"),
        ("MI300", "did you mean MI300X, MI300A or MI100?"),
        ("L40X", "did you mean L40 or L40S?"),
        ("L40ss", "did you mean L40S?"),
        ("a100-80g", "did you mean A100_SXM_80G?"),
        ("completely different", ""),
    ],
)
def test_an_unknown_model_gets_all_names_that_are_as_near(value: str, expected: str) -> None:
    assert did_you_mean(value) == expected


@given(st.text(max_size=12))
def test_the_nearest_names_are_known_models_and_no_two_mean_the_same(value: str) -> None:
    found = [find(name) for name in nearest(value)]
    assert all(found)
    assert len(set(found)) == len(found) <= 4


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100_SXM_80G"),
        ("A100-SXM4-80GB", "A100_SXM_80G"),
        ("NVIDIA L40S", "L40S"),
        ("nvidia h100 80gb hbm3", "H100_SXM"),
        ("Tesla T4", "T4"),
        ("NVIDIA B200", "B200_SXM"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("GeForce RTX 2080 Ti", "RTX2080Ti"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX_PRO_6000_SE"),
    ],
)
def test_a_driver_name_gives_the_model(product: str, expected: str) -> None:
    found = by_driver_name(product)
    assert found is not None
    assert found.name == expected


def test_an_unknown_driver_name_gives_no_model() -> None:
    assert by_driver_name("GRID A100-4C") is None


def test_the_vendor_of_a_value() -> None:
    assert vendor_of("a100") is Vendor.NVIDIA
    assert vendor_of("Gaudi3") is Vendor.INTEL
    assert vendor_of("unheard-of") is None


# MIG


@pytest.mark.parametrize("card", MIG_MODELS, ids=lambda item: item.name)
def test_placements_fit_the_card_and_give_the_counts(card: GpuModel) -> None:
    mig = geometry(card)
    assert mig.source
    assert len({template.name for template in mig.templates}) == len(mig.templates)
    for template in mig.templates:
        assert template.name == f"{template.compute_slices}g.{template.memory_gib}gb{template.variant}"
        assert template.compute_slices <= mig.compute_slices
        assert template.memory_gib <= card.nominal_vram_gib
        assert list(template.starts) == sorted(set(template.starts))
        assert all(start >= 0 and start + template.size <= mig.memory_slots for start in template.starts)
        gaps = zip(template.starts, template.starts[1:], strict=False)
        assert all(after - before >= template.size for before, after in gaps), "instances of one profile overlap"
        if template.variant in ("", "+gfx", "-me"):
            assert template.max_instances == len(template.starts)
        else:
            assert template.max_instances == 1  # the card's media engines go to one instance


@pytest.mark.parametrize("card", MIG_MODELS, ids=lambda item: item.name)
def test_a_full_set_of_a_profile_exceeds_neither_compute_nor_memory(card: GpuModel) -> None:
    mig = geometry(card)
    for template in mig.templates:
        assert template.compute_slices * template.max_instances <= mig.compute_slices
        assert Fraction(template.size * template.max_instances, mig.memory_slots) <= 1


def test_placements_of_an_a100_are_those_that_nvml_gives() -> None:
    placements = {item.name: (item.starts, item.size) for item in geometry(model("A100_SXM_80G")).templates}
    assert placements == {
        "1g.10gb": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.10gb+me": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.20gb": ((0, 2, 4, 6), 2),
        "2g.20gb": ((0, 2, 4), 2),
        "3g.40gb": ((0, 4), 4),
        "4g.40gb": ((0,), 4),
        "7g.80gb": ((0,), 8),
    }


def test_one_profile_name_is_another_share_on_another_card() -> None:
    small, large = model("A100_PCIe_40G"), model("A100_PCIe_80G")
    on_small, on_large = mig_template(small, "1g.10gb"), mig_template(large, "1g.10gb")
    assert on_small is not None
    assert on_large is not None
    assert (on_small.size, on_small.max_instances) == (2, 4)
    assert (on_large.size, on_large.max_instances) == (1, 7)


@pytest.mark.parametrize("text", ["1g.10gb", "mig-1g.10gb", "mig-1g-10gb", "MIG 1g.10gb", "1G.10GB"])
def test_a_profile_may_be_spelled_as_its_resource_or_as_nvidia_smi_prints_it(text: str) -> None:
    template = mig_template(model("H100_SXM"), text)
    assert template is not None
    assert template.name == "1g.10gb"


def test_suffixed_profiles_are_found_by_their_own_names_only() -> None:
    assert profile_name("mig-1g.10gb.me") == "1g.10gb+me"
    plain, without = (mig_template(model("RTX_PRO_6000_SE"), text) for text in ("1g.24gb", "1g.24gb-me"))
    assert plain is not None
    assert without is not None
    assert (plain.variant, without.variant) == ("", "-me")


@pytest.mark.parametrize(("card", "text"), [("H100_SXM", "1g.5gb"), ("T4", "1g.10gb"), ("H100_SXM", "half")])
def test_a_card_without_the_profile_gives_none(card: str, text: str) -> None:
    assert mig_template(model(card), text) is None


# The page


def test_the_reference_page_is_the_one_that_the_catalogue_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_models_markdown()
