"""`mutate`: what becomes of a pod at its creation: untouched, changed by a minimal patch, or refused with every reason.

It resolves the pod with `api.resolve` and turns the result into edits by the mode table of SPEC §2a. Pure, the same bytes
for the same input; the webhook and `tensorfusion resolve` both call it. Applied to its own result it changes nothing, so
the API server may ask again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tensorfusion_iac.admission.confinement import confinement_problems
from tensorfusion_iac.admission.decision import AdmissionFacts, Decision, Grey, refused, untouched, warning_texts
from tensorfusion_iac.admission.devices import ask_for_devices, ask_for_none, show_devices
from tensorfusion_iac.admission.draft import Draft, shape_problems
from tensorfusion_iac.admission.placing import place, refuse_node, set_priority, without_global_default
from tensorfusion_iac.admission.workers import add_components
from tensorfusion_iac.api import (
    UNJUDGED,
    GPUPool,
    GPUResourceQuota,
    Mode,
    Namespace,
    NotJudged,
    Problem,
    Resolution,
    Source,
    WorkerSpec,
    WorkloadProfile,
    key,
    resolve,
)
from tensorfusion_iac.api.names import COMPONENT_LABEL, POOL_LABEL, WORKLOAD_LABEL, bounded
from tensorfusion_iac.api.pod import NATIVE_GPU
from tensorfusion_iac.api.problem import quote
from tensorfusion_iac.api.resources.quota import QuotaSingle, QuotaSpec
from tensorfusion_iac.api.values import MAX_GPUS

RESOLVED = key("resolved")
GREY = key("grey")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_ENABLED_COST = "100"
_DECIDES_CONFINEMENT = tuple(
    key(name)
    for name in (
        "isolation", "is-local-gpu", "standalone-worker-mode", "gpupool", "vendor", "workload-profile", "inject-container",
    )
)  # fmt: skip


def mutate(
    pod: object,
    facts: AdmissionFacts,
    *,
    profile: WorkloadProfile | NotJudged | None = None,
    pools: Mapping[str, GPUPool] | NotJudged = UNJUDGED,
    quota: GPUResourceQuota | NotJudged | None = None,
    grey: Grey = Grey.ON,
    claim: str | None = None,
    global_default_priority_class: str | None = None,
) -> Decision:
    """Decide about one pod (raw JSON). Never raises, whatever the pod is.

    `profile`, `pools` and `quota` are as in `api.resolve`: without pools at hand, what they alone name (images) is not in the
    patch. `grey` says which side of its grey release the pod is on, and
    `claim` names the slot that it took (SPEC §5); `global_default_priority_class` is the class that the API server gives to
    pods which name none.
    """
    # The other side of a grey release runs as written: only what the pod says itself can refuse it.
    whole = _Context(facts, profile, pools, quota)
    context = whole if grey is Grey.ON else _Context(facts, UNJUDGED, UNJUDGED, UNJUDGED)
    subject = _subject(pod, facts.namespace)
    if not isinstance(pod, Mapping):
        malformed = context.resolve(pod).problems
        return refused(subject, malformed) if malformed else untouched()
    written = without_global_default(pod, global_default_priority_class)
    again = _resolve_again(written, whole)
    resolution = again or context.resolve(written)
    warnings = warning_texts(resolution.warnings)
    if not resolution.enabled:
        return refused(subject, resolution.problems, warnings) if resolution.problems else untouched(warnings)
    shape = shape_problems(written)
    if resolution.worker is None or shape:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if shape else context.status_of(written)
        found = [*resolution.problems, *shape, *(() if shape else context.also_forbidden(written))]
        return refused(subject, found, warnings, status)
    draft = Draft(pod)
    ours = _annotate(draft, resolution, grey, claim)
    if again is not None:
        ours |= {RESOLVED, GREY}  # written by us the time before, whatever they have to say now
    refuse_node(draft)
    forbidden: list[Problem] = []
    if grey is Grey.ON:
        forbidden += confinement_problems(resolution.worker, written, facts.namespace)
        _turn_on(draft, resolution.worker, context)
    elif again is None:
        ask_for_none(draft)
    warnings = warning_texts([*(item for item in resolution.warnings if item.field not in ours), *draft.warnings])
    if draft.problems or forbidden:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if draft.problems else HTTPStatus.FORBIDDEN
        return refused(subject, [*draft.problems, *forbidden], warnings, status)
    return Decision(True, draft.patch_of(pod), warnings, subject, worker=resolution.worker)


@dataclass(frozen=True, slots=True)
class _Context:
    """What the cluster says, and the resolutions made with it."""

    facts: AdmissionFacts
    profile: WorkloadProfile | NotJudged | None
    pools: Mapping[str, GPUPool] | NotJudged
    quota: GPUResourceQuota | NotJudged | None

    def resolve(self, pod: object) -> Resolution:
        return resolve(
            pod, owner=self.facts.owner, namespace=self.facts.namespace, profile=self.profile, pools=self.pools, quota=self.quota,
        )  # fmt: skip

    def status_of(self, pod: Mapping[str, Any]) -> int:
        """403 for a pod that is right in itself and only not allowed here, by its quota or its pool; else 422."""
        quota = _without_ceilings(self.quota) if isinstance(self.quota, GPUResourceQuota) else self.quota
        elsewhere = resolve(pod, owner=self.facts.owner, profile=self.profile, pools=self.pools, quota=quota)
        return HTTPStatus.UNPROCESSABLE_ENTITY if elsewhere.problems else HTTPStatus.FORBIDDEN

    def also_forbidden(self, pod: Mapping[str, Any]) -> tuple[Problem, ...]:
        """What isolation hard forbids a pod that is refused for other reasons: every problem is told at once."""
        metadata = pod.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
        if not isinstance(metadata, Mapping) or not isinstance(annotations, Mapping):
            return ()
        kept = {name: annotations[name] for name in _DECIDES_CONFINEMENT if name in annotations}
        core = {**pod, "metadata": {**metadata, "annotations": kept}}
        worker = resolve(core, profile=self.profile, pools=self.pools, quota=UNJUDGED).worker
        return tuple(confinement_problems(worker, pod, self.facts.namespace)) if worker is not None else ()

    def pool_of(self, worker: WorkerSpec) -> GPUPool | None:
        return self.pools.get(worker.pool) if self.pools is not UNJUDGED and worker.pool is not None else None


def _without_ceilings(quota: GPUResourceQuota) -> GPUResourceQuota:
    """A quota that only gives defaults."""
    single = quota.spec.single or QuotaSingle()
    defaults = QuotaSingle(default_requests=single.default_requests, default_limits=single.default_limits)
    return GPUResourceQuota(metadata=quota.metadata, spec=QuotaSpec(single=defaults))


def _resolve_again(pod: Mapping[str, Any], context: _Context) -> Resolution | None:
    """The resolution of a pod that was mutated before: its native GPU requests are gone, and another webhook may have added
    containers since, but `resolved` tells what there was.

    None unless that annotation says, byte for byte, what it would say of such a pod: then it is not ours.
    """
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    text = annotations.get(RESOLVED) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str):
        return None
    try:
        said = json.loads(text)
        sources, count, injected = said["sources"], said["gpuCount"], said["containers"]
        native = count if sources["gpu-count"] == Source.POD else 0
        alone = sources["inject-container"] == Source.DERIVED and "containerGPUs" not in said
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(native) is not int or not 0 <= native <= MAX_GPUS or not isinstance(injected, list) or not injected:
        return None
    resolution = context.resolve(_as_first_seen(pod, injected, native, alone))
    return resolution if resolution.worker is not None and resolution.resolved() == text else None


def _as_first_seen(pod: Mapping[str, Any], injected: list[object], native: int, alone: bool) -> Mapping[str, Any]:
    """The pod with `native` whole GPUs asked for by its first injected container, which is its only one if it was `alone`."""
    spec = pod.get("spec")
    if not isinstance(spec, Mapping):
        return pod
    restored = dict(spec)
    for group in ("initContainers", "containers"):
        if not isinstance(spec.get(group), list):
            continue
        items = [item for item in spec[group] if isinstance(item, Mapping)]
        if alone and group == "containers":
            items = [item for item in items if item.get("name") in injected]
        if native:
            asking = {"resources": {"limits": {NATIVE_GPU: str(native)}}}
            items = [{**item, **asking} if item.get("name") == injected[0] else item for item in items]
        restored[group] = items
    return {**pod, "spec": restored}


def _annotate(draft: Draft, resolution: Resolution, grey: Grey, claim: str | None) -> set[str]:
    """Write our annotations and remove forged ones; returns the keys that already said what we say."""
    wanted = {RESOLVED: resolution.resolved()} if grey is Grey.ON else {GREY: "off"}
    if grey is Grey.ON and claim is not None:
        wanted[GREY] = claim
    present = draft.metadata.get("annotations") or {}
    ours = {name for name, value in wanted.items() if present.get(name) == value}
    for name in resolution.forged:
        if name not in wanted:
            draft.drop_annotation(name)
    for name, value in wanted.items():
        draft.set_metadata("annotations", name, value)
    return ours


def _turn_on(draft: Draft, worker: WorkerSpec, context: _Context) -> None:
    """The edits of the mode table."""
    pool = context.pool_of(worker)
    _label(draft, worker)
    if worker.enabled_replicas is not None and context.facts.owner is not None:
        _keep_longer(draft)
    set_priority(draft, worker)
    add_components(draft, worker, pool)
    show_devices(draft, worker)
    ask_for_devices(draft, worker)
    if worker.mode is not Mode.REMOTE:
        place(draft, worker, pool, context.profile if isinstance(context.profile, WorkloadProfile) else None)


def _label(draft: Draft, worker: WorkerSpec) -> None:
    """Our labels. Another value of the user's is refused: a selector may name it, and would then miss its own pods."""
    wanted = {
        COMPONENT_LABEL: "client" if worker.mode is Mode.REMOTE else "worker",
        WORKLOAD_LABEL: bounded(worker.workload),
    }
    if worker.pool is not None:
        wanted[POOL_LABEL] = bounded(worker.pool)
    present = draft.metadata.get("labels") or {}
    for name, value in wanted.items():
        if present.get(name) not in (None, value):
            message = "{found} is set by hand, and TensorFusion sets it to {accepted}; leave it out"
            draft.problems.append(Problem(f"label {name}", quote(present[name]), quote(value), message))
        else:
            draft.set_metadata("labels", name, value)


def _keep_longer(draft: Draft) -> None:
    """When the owner shrinks, it should give up its other pods first (SPEC §5)."""
    annotations = draft.metadata.get("annotations") or {}
    if DELETION_COST in annotations and annotations[DELETION_COST] != _ENABLED_COST:
        found = quote(annotations[DELETION_COST])
        message = "{found} stays; with a grey release, {accepted} would keep the enabled pods when their owner shrinks"
        draft.warnings.append(Problem(DELETION_COST, found, _ENABLED_COST, message))
    else:
        draft.set_metadata("annotations", DELETION_COST, _ENABLED_COST)


def _subject(pod: object, namespace: Namespace) -> str:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, Mapping) else None
    return f"pod {namespace.name}/{name}" if isinstance(name, str) else f"pod in namespace {namespace.name}"
