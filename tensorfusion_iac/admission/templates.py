"""`judge_template`: what is wrong with a workload's pod template whatever else the cluster holds (SPEC §1; issue of admission).

A wrong template would only show as an event of a ReplicaSet. Judged here, it fails at `pulumi preview`, `kubectl apply` and
Argo alike. What another object may still put right (a profile, a pool, a quota's defaults) is left to the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorfusion_iac.admission.confinement import confinement_problems
from tensorfusion_iac.admission.decision import Decision, refused, untouched, warning_texts
from tensorfusion_iac.admission.draft import shape_problems
from tensorfusion_iac.api import UNJUDGED, Isolation, Namespace, Owner, Source, resolve

TEMPLATE_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob")


def judge_template(kind: str, workload: object, namespace: str = "") -> Decision:
    """Decide about an object that has a pod template: allowed (with warnings), or refused with every problem.

    `workload` is raw JSON of one of TEMPLATE_KINDS; other kinds, and anything that is not an object, are allowed. No patch.
    """
    template = pod_template(kind, workload)
    if template is None or not isinstance(workload, Mapping):
        return untouched()
    metadata = workload.get("metadata")
    name = str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""
    resolution = resolve(
        template, owner=Owner(kind, name), namespace=Namespace(namespace),
        profile=UNJUDGED, pools=UNJUDGED, quota=UNJUDGED,
    )  # fmt: skip
    subject = f"{kind} {namespace}/{name} pod template"
    if not resolution.enabled:
        return untouched(warning_texts(resolution.warnings))
    problems = [*resolution.problems, *shape_problems(template)]
    worker = resolution.worker
    if worker is not None and not problems and resolution.sources.get("isolation") is Source.ANNOTATION:
        local = resolution.sources.get("is-local-gpu") is Source.ANNOTATION
        if local and worker.isolation is Isolation.HARD:
            problems += confinement_problems(worker, template, None)
    if problems:
        return refused(subject, problems, warning_texts(resolution.warnings))
    return Decision(True, warnings=warning_texts(resolution.warnings), subject=subject, worker=worker)


def pod_template(kind: str, workload: object) -> Mapping[str, Any] | None:
    """The pod template of a workload, if it has one."""
    path = ("spec", "jobTemplate", "spec", "template") if kind == "CronJob" else ("spec", "template")
    if kind not in TEMPLATE_KINDS:
        return None
    found: Any = workload
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None
