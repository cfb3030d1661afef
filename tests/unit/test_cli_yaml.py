"""YAML and JSON as Kubernetes reads them: what PyYAML alone would read otherwise, and what must end in a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.cli.yaml_text import Located, SyntaxFault, plain, read, write


def values(text: str | bytes) -> list[Any]:
    return [document.value for document in read(text if isinstance(text, bytes) else text.encode())]


def fault(text: str | bytes) -> SyntaxFault:
    with pytest.raises(SyntaxFault) as caught:
        values(text)
    return caught.value


# What `kubectl label --local -f FILE a=b -o json` makes of each.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("10", 10), ("-1", -1), ("0x1f", 31), ("017", 15), ("0o17", 15), ("08", 8.0),
        ("0b11", 3), ("1_000", 1000), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("yes", True), ("off", False), ("True", True), ("y", True), ("N", False), ("~", None), ("null", None), ("", None),
        ("0x_", "0x_"),
        ("4Gi", "4Gi"), ("1e", "1e"), ("'1e3'", "1e3"), ('"yes"', "yes"), ("!!str 10", "10"), ("=", "="),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_kubernetes_takes_it_for(text: str, value: Any) -> None:
    [document] = values(f"key: {text}")
    assert document == {"key": value}
    assert type(document["key"]) is type(value)


def test_keys_are_text() -> None:
    assert values("8080: a\ntrue: b\n1.5: c\nn: e") == [{"8080": "a", "true": "b", "1.5": "c", "false": "e"}]
    assert "a key must be text" in fault("~: a").message


def test_merge_keys_give_what_is_not_said() -> None:
    assert values("a: &a {x: 1, w: 2}\nb: {<<: *a, x: 3}\nc: {<<: [*a, {z: 4}]}")[0]["b"] == {"x": 3, "w": 2}


def test_a_key_that_stands_twice_is_named_with_its_lines() -> None:
    found = fault("metadata:\n  a: 1\n  b: 2\n  a: 3\n")
    assert (found.line, found.message) == (4, 'the key "a" stands twice in one mapping (first in line 2)')
    assert 'the key "a" stands twice' in fault('{"a": 1,\n "a": 2}').message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a:\n\tb: c", 2, "cannot start any token"),
        ("a: [1,", 2, "did not find expected"),
        ("a: 1\n---\nb: *x", 3, "undefined alias"),
        ("&a [*a]", 1, "an alias inside of what it stands for"),
        ("a: 1\nb: !!python/object:os.system x", 2, "means nothing to Kubernetes"),
        ("a: !Ref x", 1, "means nothing to Kubernetes"),
        ("a: !Sub {x: 1}", 1, "means nothing to Kubernetes"),
        ("? [a]\n: b", 1, "a key must be text"),
        ("<<: 1", 1, "<< takes a mapping"),
        ("a: .inf", 1, "a number that Kubernetes can't hold"),
        ("a: " + "9" * 5000, 1, "a number that Kubernetes can't hold"),
        ('{"a": ' + "9" * 5000 + "}", 1, "a number that Kubernetes can't hold"),
        ('{"a": "\\ud83d"}', 1, "escape"),
        ("a: 1\nb: \x00", 2, "control characters"),
        (b"a: \xff", 1, "not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", 1, "control characters"),
        (b"\x89PNG\r\n", 1, "not UTF-8"),
        (b"\xff\xfea\x00", 1, "not UTF-8"),
        ("[" * 300 + "]" * 300, 1, "nested deeper"),
        ("[" * 100_000, 1, "nesting depth"),
        ("- " * 100_000 + "a", 1, "nesting depth"),
        ('{"a":' * 100_000, 1, "nesting depth"),
        ('{"a":' * 400 + "1" + "}" * 400, 1, "nested deeper"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str | bytes, line: int, words: str) -> None:
    found = fault(text)
    assert found.line == line
    assert words in found.message
    assert "\n" not in found.message


def test_aliases_cannot_blow_a_file_up() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
    assert "aliases" in fault(f"l0: &l0 [x, x, x, x, x]\n{levels}").message
    assert values("a: &a {x: 1}\nb: [*a, *a]") == [{"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]}]


def test_documents_before_a_fault_are_given() -> None:
    documents = read(b"a: 1\n---\nb: [\n")
    assert next(documents).value == {"a": 1}
    with pytest.raises(SyntaxFault):
        next(documents)


def test_json_is_read_as_json() -> None:
    assert values('{"a": "\\ud83d\\ude00", "b": "\\/", "c": 1e2}\n{"d": null}') == [
        {"a": "\U0001f600", "b": "/", "c": 100.0},
        {"d": None},
    ]
    assert values("{a: b}") == [{"a": "b"}]  # flow YAML
    assert values('{"a": 1}\n---\nb: 2\n') == [{"a": 1}, {"b": 2}]
    assert values(b"\xef\xbb\xbfa: 1") == [{"a": 1}]


def test_mappings_know_their_lines() -> None:
    [document] = values("# c\na: 1\nb:\n  c: 2\n\n  d: 3\n")
    assert isinstance(document["b"], Located)
    assert (document.line_of("b"), document["b"].line, document["b"].line_of("d"), document["b"].line_of("x")) == (3, 4, 6, 4)


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [
        "1e3",
        "y",
        "no",
        "1:30",
        "08",
        "0x1f",
        "~",
        "",
        "2024-01-01",
        "1_000",
        "<<",
        "=",
        "a\nb\n",
        " a\n",
        "\ta",
        "a \nb",
        "- a",
        "# x",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(VALUES.filter(lambda value: value is not None), min_size=1, max_size=3))
def test_what_is_written_reads_back_the_same_here_and_elsewhere(documents: list[Any]) -> None:
    text = write(documents)
    assert plain(values(text)) == documents
    assert list(yaml.safe_load_all(text)) == documents


@given(VALUES)
def test_json_reads_back_the_same(value: Any) -> None:
    assert plain(values(json.dumps({"value": value}))) == [{"value": value}]


@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_values_or_a_fault(content: bytes) -> None:
    lines = []
    try:
        lines = [document.line for document in read(content)]
    except SyntaxFault as found:
        lines.append(found.line)
    assert all(line >= 1 for line in lines)
