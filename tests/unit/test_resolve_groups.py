"""Autoscaling and gangs: what turns them on, and what says nothing without them (SPEC §2, §4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from resolving import ENOUGH, accepted, ask, problems, warnings

from tensorfusion_iac.api import AutoscaleTarget
from tensorfusion_iac.api.worker import Gang


def auto(**fields: Any) -> dict[str, Any]:
    return {"autoScalingConfig": {"autoSetResources": fields}}


@pytest.mark.parametrize(
    ("annotations", "profile", "expected"),
    [
        ({}, None, None),
        ({"autoscale": "true"}, None, AutoscaleTarget.ALL),
        ({"autoscale": "true", "autoscale-target": "vram"}, None, AutoscaleTarget.VRAM),
        ({}, auto(enable=True), AutoscaleTarget.ALL),
        ({}, auto(enable=True, targetResource="compute"), AutoscaleTarget.COMPUTE),
        ({"autoscale-target": "vram"}, auto(enable=True, targetResource="compute"), AutoscaleTarget.VRAM),
        ({"autoscale": "true"}, auto(targetResource="compute"), AutoscaleTarget.COMPUTE),
        ({"autoscale": "false"}, auto(enable=True), None),
        ({}, auto(enable=False, targetResource="compute"), None),
    ],
)
def test_autoscaling(annotations: dict[str, str], profile: Any, expected: AutoscaleTarget | None) -> None:
    resolution = ask({**ENOUGH, **annotations}, profile=profile)
    assert accepted(resolution).autoscale is expected
    assert not warnings(resolution)


def test_a_target_without_autoscaling_is_warned_of() -> None:
    said = ["autoscale-target: vram says nothing without autoscale: true; ignored"]
    assert warnings(ask({**ENOUGH, "autoscale-target": "vram"})) == said
    assert warnings(ask({**ENOUGH, "autoscale-target": "vram", "autoscale": "false"}, profile=auto(enable=True))) == said


@pytest.mark.parametrize(
    ("annotations", "profile", "expected"),
    [
        ({}, None, None),
        ({"gang-min-members": "2"}, None, Gang(2, None)),
        ({"gang-min-members": "2", "gang-timeout": "5m"}, None, Gang(2, timedelta(minutes=5))),
        ({"gang-min-members": "2", "gang-timeout": "0"}, None, Gang(2, None)),
        ({}, {"minMembers": 4, "timeout": "1m"}, Gang(4, timedelta(minutes=1))),
        ({"gang-min-members": "8"}, {"minMembers": 4, "timeout": "1m"}, Gang(8, timedelta(minutes=1))),
        ({"gang-timeout": "9s"}, {"minMembers": 4, "timeout": "1m"}, Gang(4, timedelta(seconds=9))),
        ({"gang-timeout": "0s"}, {"minMembers": 4, "timeout": "1m"}, Gang(4, None)),
        ({"gang-min-members": "0"}, {"minMembers": 4, "timeout": "1m"}, None),
        ({}, {"timeout": "1m"}, None),
    ],
)
def test_gangs(annotations: dict[str, str], profile: Any, expected: Gang | None) -> None:
    resolution = ask({**ENOUGH, **annotations}, profile=None if profile is None else {"gangScheduling": profile})
    assert accepted(resolution).gang == expected
    assert not warnings(resolution)


def test_a_gang_timeout_without_a_gang_is_warned_of() -> None:
    said = ["gang-timeout: a timeout says nothing without gang-min-members; ignored"]
    assert warnings(ask({**ENOUGH, "gang-timeout": "5m"})) == said
    assert warnings(ask({**ENOUGH, "gang-timeout": "5m", "gang-min-members": "0"})) == said


def test_a_profile_with_a_gang_of_one_is_refused() -> None:
    (problem,) = problems(ask(ENOUGH, profile={"gangScheduling": {"minMembers": 1}}))
    assert problem.startswith("WorkloadProfile inference spec.gangScheduling.minMembers: 1")
