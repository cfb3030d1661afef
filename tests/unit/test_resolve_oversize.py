"""Objects far larger than any that runs: refused or summarised in few words, after little work (SPEC §3)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from resolving import ENOUGH, ask, problems

from tensorfusion_iac.api import PREFIX, parse_annotations

LIMIT = 1000


def names(count: int, prefix: str = "c") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("containers", "init"), [(names(9000), ()), (("main",), names(9000)), (names(LIMIT), ("setup",))], ids=["app", "init", "both"]
)
def test_more_containers_than_any_pod_has_are_one_problem(containers: Iterable[str], init: Iterable[str]) -> None:
    containers, init = list(containers), list(init)
    split = json.dumps(dict.fromkeys(containers[:LIMIT], 1))
    found = problems(ask({**ENOUGH, "container-gpu-count": split}, containers=containers, init=init))
    assert f"spec.containers: {len(containers) + len(init)} containers; give at most {LIMIT}" in found
    assert len(found) <= 2


def test_as_many_containers_as_are_allowed_are_judged_each() -> None:
    annotated = {**ENOUGH, "inject-container": ",".join(names(LIMIT))}
    assert problems(ask(annotated, containers=names(LIMIT))) == []


def test_a_split_over_more_containers_than_any_pod_has_is_one_problem() -> None:
    split = json.dumps({"main": 1, **dict.fromkeys(names(LIMIT), 0)})
    assert problems(ask({**ENOUGH, "container-gpu-count": split}, containers=("main",))) == [
        f"container-gpu-count: {LIMIT + 1} containers; give at most {LIMIT}"
    ]


def test_of_very_many_unknown_annotations_the_first_are_named_and_the_rest_are_counted() -> None:
    parsed = parse_annotations({f"{PREFIX}{name}": "x" for name in names(9000, "vram-request-")})
    assert len(parsed.warnings) == 51
    assert [warning.field for warning in parsed.warnings[:50]] == [PREFIX + name for name in names(50, "vram-request-")]
    assert parsed.warnings[-1].text().startswith(f"metadata.annotations: 8950 more keys of {PREFIX} are not known")


def test_a_near_name_is_looked_for_a_few_times_only() -> None:
    parsed = parse_annotations({f"{PREFIX}{name}": "x" for name in names(30, "vram-request-")})
    assert ["did you mean" in warning.sentence() for warning in parsed.warnings] == [True] * 20 + [False] * 10


def test_every_forged_annotation_is_known_however_many_there_are() -> None:
    forged = {f"{PREFIX}gpu-ids.{name}": "x" for name in names(200)}
    assert parse_annotations(forged).forged == tuple(forged)
