"""The guide of the components names every argument that they take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorfusion_iac.components.control_plane_arguments import ControlPlaneArguments
from tensorfusion_iac.components.cronjob import CronJobArguments
from tensorfusion_iac.components.deployment import DeploymentArguments
from tensorfusion_iac.components.gpupool import GPUPoolArguments
from tensorfusion_iac.components.job import JobArguments
from tensorfusion_iac.components.observability import ObservabilityArguments
from tensorfusion_iac.components.statefulset import StatefulSetArguments
from tensorfusion_iac.components.workload_spec import WorkloadSpecArguments

GUIDE = (Path(__file__).parents[2] / "docs" / "components.md").read_text()


def section(heading: str) -> str:
    """The text below a heading that begins so, up to the next of its level."""
    found = re.search(rf"^## {re.escape(heading)}.*?(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found.group()


@pytest.mark.parametrize(
    ("heading", "arguments"),
    [
        ("Workloads", DeploymentArguments),
        ("Workloads", StatefulSetArguments),
        ("Workloads", JobArguments),
        ("Workloads", CronJobArguments),
        ("`ControlPlane`", ControlPlaneArguments),
        ("`GPUPool`", GPUPoolArguments),
        ("`WorkloadProfile`", WorkloadSpecArguments),
        ("`Observability`", ObservabilityArguments),
    ],
)
def test_every_argument_is_in_the_guide(heading: str, arguments: type) -> None:
    text = section(heading)
    missing = [name for name in arguments.__annotations__ if f"`{name}`" not in text]
    assert not missing
