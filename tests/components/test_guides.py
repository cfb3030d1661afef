"""The programs of the guides do what the guides say: they run, without a problem or a warning, and say valid things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mocked import Ran, Run

from tensorfusion_iac.admission.environment import VRAM_FRACTION, VRAM_LIMIT_MIB
from tensorfusion_iac.api.resources import GPUResourceQuota

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("share-a-gpu", "vllm", "training-job", "mig", "grey-release", "quota", "observability")


def program(page: str) -> str:
    """The one program of a page."""
    (found,) = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def ran(run: Run, page: str) -> Ran:
    code = compile(program(page), page, "exec")
    return run(lambda: exec(code, {}))


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guides_program_runs_without_complaint(run: Run, guide: str) -> None:
    done = ran(run, f"guides/{guide}.md")
    assert done.error is None
    assert done.logged == []
    assert done.registered


def test_the_quota_of_the_guide_is_one(run: Run) -> None:
    made = ran(run, "guides/quota.md").one("GPUResourceQuota")
    quota = GPUResourceQuota.model_validate({"metadata": {"name": "quota", "namespace": "ml"}, "spec": made["spec"]})
    assert quota.spec.total is not None
    assert quota.spec.single is not None


@pytest.mark.parametrize(
    ("guide", "kind", "annotations"),
    [
        ("share-a-gpu", "Deployment", {"tflops-request": "10", "tflops-limit": "40", "vram-request": "4Gi", "qos": "medium"}),
        ("mig", "Deployment", {"isolation": "partitioned", "partition-template": "1g.10gb"}),
        ("grey-release", "Deployment", {"enabled-replicas": "2"}),
        ("training-job", "Job", {"dedicated-gpu": "true", "container-gpu-count": '{"trainer":3,"evaluator":1}'}),
    ],
)
def test_it_says_what_the_guide_is_about(run: Run, guide: str, kind: str, annotations: dict[str, str]) -> None:
    template = ran(run, f"guides/{guide}.md").one(f":{kind}")["spec"]["template"]
    found = {name.removeprefix("tensor-fusion.ai/"): value for name, value in template["metadata"]["annotations"].items()}
    assert annotations.items() <= found.items()


def test_variables_that_pages_name_are_those_that_containers_get() -> None:
    named = {name for guide in GUIDES for name in re.findall(r"TENSOR_FUSION_\w+", (DOCS / "guides" / f"{guide}.md").read_text())}
    assert named == {VRAM_FRACTION, VRAM_LIMIT_MIB}
