"""Quantities: exact reading, rounding up, the bounds of each amount, and the way back to text (SPEC §2)."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import (
    format_bytes,
    format_decimal,
    from_number,
    parse_percent,
    parse_percent_limit,
    parse_quantity,
    parse_tflops,
    parse_vram,
)

GI = 2**30
MAX_VRAM = 10 * 2**40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", "10"), ("0.5", "0.5"), ("500m", "0.5"), ("4Gi", str(4 * GI)), ("4G", "4000000000"), (".5", "0.5"), ("5.", "5"),
        ("1e3", "1000"), ("1E3", "1000"), ("1e-3", "0.001"), ("1e+2", "100"), ("1E", "1000000000000000000"), ("2Ki", "2048"),
        ("3k", "3000"), ("7n", "0.000000007"), ("8u", "0.000008"), ("0", "0"), ("007", "7"),
    ],
)  # fmt: skip
def test_a_quantity_is_read_exactly(text: str, expected: str) -> None:
    assert parse_quantity(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "abc", "100%", "4 Gi", " 4Gi", "4Gi ", "4Gi\n", "-1Gi", "-0", "+1", "NaN", "Inf", "infinity", "1,5", "1_000",
        "0x10", "4gi", "4GB", "4GiB", "4Gib", "10K", "1e", "1e3Gi", "e3", ".", "..5", "1.2.3", "１０", "٣", "1e999", "9" * 33,
        "4Gi,5Gi", "4\u00a0Gi", "\u22124", "½",
    ],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(Fault, match="Kubernetes quantity"):
        parse_quantity(text)


def test_what_is_finer_than_a_billionth_rounds_up_to_it() -> None:
    assert parse_quantity("1e-30") == Decimal("1e-9")
    assert parse_quantity("0.1234567891") == Decimal("0.123456790")


@pytest.mark.parametrize(("text", "expected"), [("312.5", "312.5"), ("500m", "0.5"), ("99999.999999999", "99999.999999999")])
def test_tflops_are_exact(text: str, expected: str) -> None:
    assert parse_tflops(text) == Decimal(expected)


@pytest.mark.parametrize("text", ["0", "0.0", "0m", "100000", "16Gi", "10Ti", "1M", "1e30"])
def test_tflops_outside_their_bounds_are_refused(text: str) -> None:
    with pytest.raises(Fault, match="TFLOPS above 0 and below 100000"):
        parse_tflops(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5Gi", 3 * GI // 2), ("4Gi", 4 * GI), ("4G", 4_000_000_000), ("1048576", 2**20), ("0.3Gi", 322122548),
        ("1500000.2", 1_500_001), ("1k", 1000), ("1e9", 10**9), ("9.9999Ti", 10995006326598),
    ],
)  # fmt: skip
def test_bytes_round_up_to_a_whole_number(text: str, expected: int) -> None:
    assert parse_vram(text) == expected


@pytest.mark.parametrize(
    "text", ["0", "0Gi", "10Ti", "10240Gi", str(2**63), str(2**64), "1e30", "9999999999999.9999Ti", "10995116277759.5"]
)
def test_memory_outside_its_bounds_is_refused(text: str) -> None:
    with pytest.raises(Fault, match="bytes above 0 and below 10Ti"):
        parse_vram(text)


@pytest.mark.parametrize(
    ("text", "suggested"),
    [("4", "4Gi"), ("16.", "16Gi"), ("0.5", "0.5Gi"), ("1e2", "100Gi"), ("20000", "20000Mi or 19.53125Gi"), ("1048575", "Gi")],
)
def test_a_bare_number_below_one_mebibyte_is_taken_for_a_forgotten_unit(text: str, suggested: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_vram(text)
    assert suggested in str(caught.value)
    assert "less than 1Mi" in str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [("0", "0"), ("33.3", "33.3"), ("100", "100"), ("500m", "0.5")])
def test_a_percentage_is_a_number_from_0_to_100(text: str, expected: str) -> None:
    assert parse_percent(text) == Decimal(expected)


@pytest.mark.parametrize("text", ["NaN", "Inf", "101", "100.0001", "-0", "-1", "１０", "50%", "1k", "ten", ""])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    for parse in (parse_percent, parse_percent_limit):
        with pytest.raises(Fault, match="from 0 to 100"):
            parse(text)


def test_a_percentage_of_0_is_a_request_for_nothing_and_no_limit() -> None:
    assert parse_percent("0") == 0
    with pytest.raises(Fault, match="above 0, up to 100"):
        parse_percent_limit("0.0")


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (4 * GI, "4Gi"),
        (3 * GI // 2, "1536Mi"),
        (2**40, "1Ti"),
        (10**10, "10G"),
        (1_500_000_000, "1500M"),
        (10**10 + 1, "10000000001"),
        (2**20 + 1, "1048577"),
        (500, "0.5k"),
    ],
)
def test_bytes_are_written_in_a_unit_that_divides_them(size_bytes: int, expected: str) -> None:
    assert format_bytes(size_bytes) == expected


@given(st.integers(1, MAX_VRAM - 1))
def test_written_bytes_read_back_the_same(size_bytes: int) -> None:
    assert parse_vram(format_bytes(size_bytes)) == size_bytes


@given(st.decimals(min_value=0, max_value=99999, allow_nan=False, places=9))
def test_a_written_amount_reads_back_the_same(value: Decimal) -> None:
    assert parse_quantity(format_decimal(value)) == value


QUANTITY_TEXT = st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,8})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?", fullmatch=True)


@given(QUANTITY_TEXT)
def test_whatever_reads_as_tflops_can_be_written_and_read_again(text: str) -> None:
    try:
        value = parse_tflops(text)
    except Fault:
        return
    assert parse_tflops(format_decimal(value)) == value


@given(QUANTITY_TEXT)
def test_no_amount_of_memory_is_less_than_was_written(text: str) -> None:
    try:
        size_bytes = parse_vram(text)
    except Fault:
        return
    assert 0 <= size_bytes - parse_quantity(text) < 1


@given(st.text())
def test_any_text_is_a_quantity_or_a_fault(text: str) -> None:
    for parse in (parse_quantity, parse_tflops, parse_vram, parse_percent, parse_percent_limit):
        with contextlib.suppress(Fault):
            assert parse(text) >= 0


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (10, "10"), (0.5, "0.5"), (20.0, "20"), (1e10, "10000000000"), (1e-7, "0.0000001"), (Decimal("1E+3"), "1000"),
        (Decimal("0.10"), "0.1"), ("4Gi", "4Gi"),
    ],
)  # fmt: skip
def test_a_python_number_is_written_as_a_plain_decimal(number: object, expected: str) -> None:
    assert from_number(number) == expected


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        pytest.param(10**5000, id="long"),
        Decimal("1e-999999"),
        [1],
        b"1",
    ],
)
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(Fault):
        from_number(value)
