"""The recorded previews, the cluster that they were made on, and a stack of 500 workloads made from the recorded shape."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.report import Cluster, Report, read_preview, report_of

TESTS = Path(__file__).parents[1]
PREVIEWS = TESTS / "fixtures" / "previews"
GOLDEN = TESTS / "golden" / "report"
CLUSTER = PREVIEWS / "cluster.yaml"
RECORDED = ("create", "grow", "shrink", "delete", "move-pool", "no-change", "over-quota", "unknown", "broken")
MANY = "500-workloads"
NAMES = (*RECORDED, MANY)
_OF_THE_STACK = ("Pod", "GPUPool", "WorkloadProfile", "GPUResourceQuota")


@cache
def objects() -> tuple[dict[str, Any], ...]:
    """The objects of the recorded cluster: two nodes of four A100, two of two L40S, and what the stack made."""
    return tuple(yaml.safe_load_all(CLUSTER.read_text()))


def cluster() -> Cluster:
    """The cluster with the stack."""
    return Cluster(objects(), agents_live=True)


def empty_cluster() -> Cluster:
    """The cluster before the stack."""
    return Cluster(tuple(item for item in objects() if item["kind"] not in _OF_THE_STACK), agents_live=True)


def text(name: str) -> str:
    """What `pulumi preview --json` printed."""
    return json.dumps(many()) if name == MANY else (PREVIEWS / f"{name}.json").read_text()


def report(name: str) -> Report:
    """The report of one preview, on the cluster as it was then."""
    return report_of(read_preview(text(name)), empty_cluster() if name in ("create", MANY) else cluster())


def steps(digest: dict[str, Any], kind: str, name: str) -> list[dict[str, Any]]:
    """The steps of one object."""
    wanted = f":{kind}::{name}"
    return [step for step in digest["steps"] if step["urn"].endswith(wanted) and ":kubernetes:" in step["urn"].replace("$", ":")]


def many(count: int = 500) -> dict[str, Any]:
    """The preview of a stack of so many Deployments: the recorded creation, with its Deployments repeated."""
    digest: dict[str, Any] = json.loads((PREVIEWS / "create.json").read_text())
    shapes = [steps(digest, "Deployment", name)[0] for name in ("chat", "training", "search")]
    digest["steps"] = [step for step in digest["steps"] if step not in shapes]
    for at in range(count):
        shape, name = shapes[at % len(shapes)], f"workload-{at:03}"
        step = json.loads(json.dumps(shape).replace(f"::{shape['urn'].rpartition('::')[2]}", f"::{name}"))
        inputs = step["newState"]["inputs"]
        inputs["metadata"]["name"] = name
        inputs["spec"]["replicas"] = 1 + at % 2
        inputs["spec"]["selector"] = {"matchLabels": {"app": name}}
        inputs["spec"]["template"]["metadata"]["labels"]["app"] = name
        digest["steps"].append(step)
    digest["changeSummary"] = {"create": len(digest["steps"])}
    return digest


def edited(name: str, edit: Any) -> dict[str, Any]:
    """A recorded preview after `edit` of its digest."""
    digest = copy.deepcopy(json.loads(text(name)))
    edit(digest)
    return dict(digest)
