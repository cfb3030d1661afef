"""The webhook without HTTP: from a request of the API server to a decision, with what the cluster says.

Pods are mutated, templates and our resources judged. A pod's place in its grey release is claimed only when it would be
admitted otherwise, so that a refused pod never holds a slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tensorfusion_iac.admission.claims import Wish
from tensorfusion_iac.admission.cluster import Cluster, controller_of
from tensorfusion_iac.admission.decision import AdmissionFacts, Decision, Grey, refused, untouched
from tensorfusion_iac.admission.grey import GreyRelease, GreyRequest, GreyUnsettledError
from tensorfusion_iac.admission.memo import Memo
from tensorfusion_iac.admission.mutation import GREY, RESOLVED, mutate
from tensorfusion_iac.admission.resources import judge_resource
from tensorfusion_iac.admission.review import Request
from tensorfusion_iac.admission.templates import judge_template, pod_template
from tensorfusion_iac.api import ENABLED_LABEL, GROUP, UNJUDGED, Owner, Problem, key, profile_name, resolve
from tensorfusion_iac.api.problem import literal


class Webhook:
    """Decides about the API server's requests."""

    def __init__(self, cluster: Cluster, grey: GreyRelease) -> None:
        self.cluster, self.grey = cluster, grey
        self._memo = Memo()

    async def mutate(self, request: Request) -> Decision:
        """Decide about a pod that is created."""
        pod = request.object
        if _labels(pod).get(ENABLED_LABEL) != "true":
            return mutate(pod, AdmissionFacts(await self.cluster.namespace(request.namespace)))
        if not self.cluster.ready:
            return _unavailable(f"pod in namespace {request.namespace}", "pod", "the cluster", "is not known yet; {accepted}")
        direct = controller_of(pod)
        facts = AdmissionFacts(
            await self.cluster.namespace(request.namespace), await self.cluster.top_owner(request.namespace, direct)
        )
        remembered = self._memo.key(pod, facts, self.cluster.version)
        if (known := self._memo.get(remembered)) is not None:
            return known
        decision = await self._decide(pod, facts, Grey.ON, None)
        if _lacks_pool(decision) and await self.cluster.learn_pools():
            decision = await self._decide(pod, facts, Grey.ON, None)
        self._memo.put(remembered, decision)
        limit = _enabled_replicas(pod, facts, decision)
        if limit is None and not decision.allowed and direct is not None and _was_left_as_written(pod):
            return untouched()
        if limit is None or (direct is None and limit > 0):
            return decision
        return await self._in_grey_release(request, facts, decision, direct, limit)

    def validate(self, request: Request) -> Decision:
        """Decide about a workload with a pod template, or about one of our resources."""
        if not isinstance(request.object, Mapping):
            return untouched()
        if request.group == GROUP:
            return judge_resource(request.object, self.cluster.neighbours(request.namespace), request.old_object)
        template = pod_template(request.kind, request.object)
        if template is not None and template == pod_template(request.kind, request.old_object):
            return untouched()
        return judge_template(request.kind, request.object, request.namespace)

    async def _decide(self, pod: Any, facts: AdmissionFacts, grey: Grey, claim: str | None) -> Decision:
        name = profile_name(pod)
        profile = await self.cluster.profile(facts.namespace.name, name) if name is not None else None
        return mutate(
            pod, facts, profile=profile, pools=self.cluster.pools, quota=self.cluster.quota(facts.namespace.name),
            grey=grey, claim=claim, global_default_priority_class=self.cluster.global_default_priority_class,
        )  # fmt: skip

    async def _in_grey_release(
        self, request: Request, facts: AdmissionFacts, decision: Decision, direct: Owner | None, limit: int
    ) -> Decision:
        """The decision for this pod's side. A refusal stands only if the pod would be on."""
        claim = None
        if direct is not None and limit > 0:
            labels, annotations = _labels(request.object), _annotations(request.object)
            wish = Wish(request.uid, limit, annotations.get(GREY))
            dry_run = request.dry_run or not decision.allowed
            try:
                claim = await self.grey.claim(GreyRequest(facts.namespace.name, direct, labels, wish, dry_run))
            except GreyUnsettledError as error:
                message = f"could not be read or written in time ({literal(str(error))}); {{accepted}}"
                return _unavailable(decision.subject, "enabled-replicas", "the claims of this grey release", message)
        if claim is None:
            return await self._decide(request.object, facts, Grey.OFF, None)
        return await self._decide(request.object, facts, Grey.ON, claim) if decision.allowed else decision


def _unavailable(subject: str, field: str, what: str, message: str) -> Decision:
    """Refused for now; whoever creates the pod tries again."""
    return refused(subject, [Problem(field, what, "try again", f"{{found}} {message}")], (), HTTPStatus.SERVICE_UNAVAILABLE)


def _lacks_pool(decision: Decision) -> bool:
    """Whether a pool that may have been created just now could change the decision."""
    return any(problem.field == "gpupool" or problem.field.endswith("spec.poolName") for problem in decision.problems)


def _was_left_as_written(pod: object) -> bool:
    """Whether a pod has been put on the other side of its grey release already. What another webhook did to it since (a
    container more, of which nothing says whether to inject it) is then no reason to refuse it.
    """
    annotations = _annotations(pod)
    return annotations.get(GREY) == "off" and key("enabled-replicas") in annotations and RESOLVED not in annotations


def _enabled_replicas(pod: object, facts: AdmissionFacts, decision: Decision) -> int | None:
    """How many pods of its owner are to be on, if the pod says so; None also if it is wrong in itself, whoever is on."""
    worker = decision.worker
    if worker is None:
        worker = resolve(pod, owner=facts.owner, profile=UNJUDGED, pools=UNJUDGED, quota=UNJUDGED).worker
    return worker.enabled_replicas if worker is not None else None


def _labels(pod: object) -> Mapping[str, Any]:
    return _metadata(pod, "labels")


def _annotations(pod: object) -> Mapping[str, Any]:
    return _metadata(pod, "annotations")


def _metadata(pod: object, field: str) -> Mapping[str, Any]:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    found = metadata.get(field) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}
