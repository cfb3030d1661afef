"""Faults of similar systems (cases/README.md) that concern an annotation or a quantity, through `tensorfusion validate`."""

from __future__ import annotations

import json

import pytest
from cli_runs import CASES, fields, findings, pod_with, run, validated

A = "tensor-fusion.ai/"


def verdict(fixture: str, *options: str) -> dict[str, list[str]]:
    """By pod, the fields of its problems; the exit code must agree with them."""
    code, report = validated("-f", CASES / fixture, *options)
    found = fields(report)
    assert code == (1 if any(found.values()) else 0)
    return found


def test_amounts_that_would_overflow_are_refused() -> None:  # case 3
    assert verdict("quantities-out-of-bounds.yaml") == {
        "tflops-in-gibibytes": [f"{A}tflops-request"],
        "vram-of-2-to-the-63": [f"{A}vram-request"],
        "vram-of-1e30": [f"{A}vram-request"],
        "vram-below-zero": [f"{A}vram-request"],
    }


def test_fractions_are_read_exactly() -> None:  # case 4
    assert verdict("fractions.yaml") == {
        "one-and-a-half-gibibytes": [],
        "half-tflops-is-above-the-limit": [f"{A}tflops-limit"],
        "five-hundred-milli": [],
    }


def test_a_percentage_is_a_finite_number_in_ascii_digits() -> None:  # case 6
    found = verdict("percentages-that-are-none.yaml")
    assert len(found) == 6
    assert all(problems == [f"{A}compute-percent-request"] for problems in found.values())


def test_an_unknown_key_is_warned_of_with_the_nearest_name() -> None:  # case 8
    code, report = validated("-f", CASES / "unknown-key.yaml")
    assert set(map(tuple, fields(report, "warnings").values())) == {(f"{A}vram-requests",)}
    assert all(warning["accepted"] == f"did you mean {A}vram-request?" for warning in findings(report, "warnings"))
    assert fields(report) == {"misspelled-beside-an-amount": [], "misspelled-alone": [f"{A}vram-request"]}
    assert code == 1


def test_an_unknown_key_alone_refuses_nothing() -> None:  # case 8
    result = run("validate", "-f", "-", stdin=pod_with({f"{A}vram-requests": "4Gi", f"{A}vram-request": "4Gi"}))
    assert result.exit_code == 0
    assert f"did you mean {A}vram-request?" in result.stderr


def test_a_blank_value_is_an_error_and_a_missing_one_is_none() -> None:  # case 9
    assert verdict("blank-values.yaml") == {"blank": [f"{A}gpu-indices", f"{A}gpu-model"], "left-out": []}


def test_two_containers_get_a_gpu_each() -> None:  # case 11
    assert verdict("containers-with-their-own-gpus.yaml") == {"one-each": [], "another-sum": [f"{A}gpu-count"]}


def test_an_init_container_does_not_bypass_the_quota() -> None:  # case 14
    found = verdict("quota-and-init-container.yaml")
    assert found["with-init"] == found["without-init"] == [f"{A}vram-request"]


def test_native_requests_of_a_sidecar_and_the_app_add_up() -> None:  # case 15
    path = CASES / "native-sidecar.yaml"
    assert verdict("native-sidecar.yaml") == {"two-gpus-in-all": []}
    result = run("resolve", "-f", path, "--output", "json")
    assert json.loads(result.stdout)["resolved"]["gpuCount"] == 2


def test_any_number_of_replicas_may_be_enabled_but_not_less_than_none() -> None:  # case 25
    assert verdict("grey-release.yaml") == {
        "some-enabled": [],
        "more-enabled-than-replicas": [],
        "less-than-none": [f"{A}enabled-replicas"],
    }


def test_an_object_without_a_namespace_is_in_the_one_of_the_call() -> None:  # case 27
    assert verdict("namespace-left-out.yaml")["no-namespace"] == []  # another namespace's profile is not judged
    assert verdict("namespace-left-out.yaml", "--namespace", "ml")["no-namespace"] == [
        "WorkloadProfile small spec.resources.limits.vram"
    ]


def test_a_forged_allocation_is_warned_of_or_refused() -> None:  # case 28
    _, report = validated("-f", CASES / "forged-allocation.yaml")
    assert fields(report, "warnings")["enabled"] == [f"{A}container-gpus"]
    assert fields(report) == {"enabled": [], "not-enabled": [f"{A}container-gpus"], "our-scheduler": ["spec.schedulerName"]}


def test_a_quota_counts_amounts_once_per_gpu() -> None:  # case 34
    found = verdict("quota-counts-every-gpu.yaml")
    assert (found["two-gpus"], found["one-gpu"]) == ([f"{A}vram-request"], [])


def test_a_quota_counts_percentages_and_whole_cards() -> None:  # case 35
    found = verdict("quota-counts-percent-and-whole-cards.yaml")
    assert found["all-of-a-card-in-percent"] == [f"{A}compute-percent-request"]
    assert found["dedicated-card"] == [f"{A}dedicated-gpu"]
    assert found["a-tenth-in-percent"] == []


def test_fewer_cards_than_asked_for_is_refused() -> None:  # case 42
    assert verdict("fewer-cards-than-asked.yaml") == {
        "one-index": [f"{A}gpu-indices"],
        "one-index-twice": [f"{A}gpu-indices"],
        "two-indices": [],
    }


@pytest.mark.parametrize(
    "text", ["{}", "null", '{"apiVersion": "v1", "kind": "Pod", "metadata": {"na', "3", '"text"', "[]", "[{}]"]
)
def test_what_is_no_object_ends_in_a_message(text: str) -> None:  # case 46
    code, report = validated("-f", "-", stdin=text)
    assert code == 1
    assert len(report["unreadable"]) == 1
    assert report["unreadable"][0]["file"] == "<stdin>"


def test_a_file_of_20_mb_is_judged() -> None:  # case 46
    pods = [pod_with({f"{A}vram-request": "4Gi", "note": "x" * 2_000_000}) for _ in range(9)]
    pods.append(pod_with({f"{A}vram-request": "0", "note": "x" * 2_000_000}))
    code, report = validated("-f", "-", stdin="\n---\n".join(pods))
    assert code == 1
    assert len(report["objects"]) == 10
    assert [finding["field"] for finding in findings(report)] == [f"{A}vram-request"]
