"""Records the previews and the cluster that the tests of `tensorfusion report` read: `python tests/cluster/record_previews.py`.

A control plane with simulated cards, our webhook, kube-scheduler and extender; the stack is really up when a change of it is
previewed. Only what a report may look at is kept, and nothing of this machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))

from gpu_plane import GpuPlane, gpu_plane
from preview_programs import CHANGES, GROUPS, SHOWING_SAMES, program
from pulumi_project import Project, new_project, prepare
from running_webhook import CONFIGURATION, account_kubeconfig, install, point_at, replica

from tensorfusion_iac.api.names import PREFIX

FIXTURES = Path(__file__).parents[1] / "fixtures" / "previews"
KINDS = "namespaces,nodes,gpunodes,gpus,gpupools,gpuresourcequotas,workloadprofiles,pods"
_STEP = ("op", "urn", "oldState", "newState", "detailedDiff", "replaceReasons", "diffReasons")
_STATE = ("type", "urn", "custom", "delete", "retainOnDelete", "protect", "inputs")
_METADATA = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "generation")
_CRD_SPEC = ("group", "names", "scope")
_FIELDS = {"Node": ("status", "spec"), "Namespace": ("spec", "status")}


def trimmed_preview(text: str, secrets: tuple[str, ...]) -> str:
    """The preview as it may be committed."""
    digest = json.loads(text)
    for step in digest.get("steps", ()):
        for state in ("oldState", "newState"):
            if state in step:
                step[state] = {key: step[state][key] for key in _STATE if key in step[state]}
                inputs = step[state].get("inputs") or {}
                if inputs.get("kind") == "CustomResourceDefinition":
                    inputs["spec"] = {key: inputs["spec"][key] for key in _CRD_SPEC}
        for key in set(step) - set(_STEP):
            del step[key]
        if not step["urn"].rpartition("::")[0].rpartition("$")[2].partition("::")[2].startswith("kubernetes:"):
            step.pop("detailedDiff", None)
    digest = {key: value for key, value in digest.items() if key not in ("duration", "config")}
    return scrubbed(json.dumps(digest, indent=1) + "\n", secrets)


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "/project")
    return text


def cluster(plane: GpuPlane) -> str:
    """The objects of the cluster that a report looks at."""
    listing = json.loads(plane.kubectl("get", KINDS, "-A", "-o", "json"))
    return yaml.safe_dump_all([trimmed_object(item) for item in listing["items"] if wanted(item)], sort_keys=True)


def wanted(item: dict[str, Any]) -> bool:
    gpu_pod = item["kind"] != "Pod" or item["spec"].get("schedulerName") == "tensor-fusion-scheduler"
    return gpu_pod and not (item["kind"] == "Namespace" and item["metadata"]["name"].startswith("kube-"))


def trimmed_object(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: item["metadata"][key] for key in _METADATA if key in item["metadata"]}
    annotations = {key: text for key, text in metadata.get("annotations", {}).items() if key.startswith(PREFIX)}
    metadata["annotations"] = annotations
    kept = {key: value for key, value in item.items() if key not in _FIELDS.get(item["kind"], ())}
    if item["kind"] == "Pod":
        spec = item["spec"]
        kept["spec"] = {key: spec[key] for key in ("nodeName", "schedulerName", "priority", "priorityClassName") if key in spec}
        kept["status"] = {key: item["status"][key] for key in ("phase", "startTime") if key in item["status"]}
    return {**kept, "metadata": metadata}


def record(plane: GpuPlane, project: Project, secrets: tuple[str, ...]) -> None:
    FIXTURES.mkdir(exist_ok=True)

    def keep(name: str, change: str) -> None:
        project.write(program(change))
        run = project.pulumi("preview", "--json", *(["--show-sames"] if name in SHOWING_SAMES else []))
        sys.stderr.write(f"{name}: {run.returncode}, {len(run.stdout)} bytes; {run.stderr[:300]}\n")
        (FIXTURES / f"{name}.json").write_text(trimmed_preview(run.stdout, secrets))

    keep("create", "")
    project.write(program(""))
    project.up()
    plane.bound("ml", 8)
    (FIXTURES / "cluster.yaml").write_text(cluster(plane))
    for change in CHANGES:
        keep(change, change)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with gpu_plane(home / "plane", GROUPS) as plane:
            prepare(plane)
            install(plane)
            plane.kubectl("delete", "validatingadmissionpolicybindings", "--all")  # the extender binds as the administrator
            with replica(account_kubeconfig(plane, home, CONFIGURATION), "first") as webhook:
                point_at(plane, f"https://127.0.0.1:{webhook.port}")
                record(plane, new_project(plane, home, "models"), (str(home / "models"), folder))


if __name__ == "__main__":
    main()
