"""Whether the programs do their work: the webhook is asked and trusted, scheduler and controller have a leader. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import timedelta

from tensorfusion_iac.admission.authority import validity
from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET
from tensorfusion_iac.admission.rotation import from_secret
from tensorfusion_iac.api.names import CONTROLLER_ACCOUNT, SCHEDULER_NAME, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.resource import LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from tensorfusion_iac.operations.finding import Finding
from tensorfusion_iac.operations.observed import Object, Observed, age_s, at, condition, is_fresh, name_of
from tensorfusion_iac.operations.observing import OWN_DEPLOYMENTS

_SOON = timedelta(days=14)
_ASK_WEBHOOK = "see the webhook's log; where API servers do not reach the pod network, ControlPlane has `webhook_host_network`"


def webhook(seen: Observed) -> Iterator[Finding]:
    """The configurations, whom they trust, the certificate, and whether the API server gets an answer."""
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        found = seen.named(kind, CONFIGURATION)
        if kind in seen.unreadable:
            continue
        if found is None:
            yield Finding(f"{kind.kind} {CONFIGURATION}", "it is missing: no pod is given GPUs", "deploy ControlPlane")
        else:
            yield from _trust(f"{kind.kind} {CONFIGURATION}", found, seen)
    yield from _certificate(seen)
    if seen.trial is not None:
        yield Finding("webhook", f"the API server gets no answer: {seen.trial}", _remedy(seen.trial))


def _remedy(trial: str) -> str:
    if "x509" in trial or "certificate" in trial:
        return "the certificate or the caBundle is wrong: see the findings about them; restarting the webhook renews both"
    return _ASK_WEBHOOK


def _trust(subject: str, configuration: Object, seen: Observed) -> Iterator[Finding]:
    secret = seen.named(SECRETS, TLS_SECRET, SYSTEM_NAMESPACE)
    keys = from_secret(secret)
    for hook in at(configuration, "webhooks") or ():
        bundle = _decoded(at(hook, "clientConfig", "caBundle"))
        if not bundle:
            yield Finding(subject, f"{hook.get('name')} has no caBundle: no pod is given GPUs", "see the webhook's log")
            return
        if keys is not None and keys.authority.certificate not in bundle:
            problem = f"the caBundle of {hook.get('name')} is not the authority in Secret {TLS_SECRET}"
            yield Finding(subject, problem, "let the webhook write it: restart it, and see its log for what keeps it from that")
            return


def _certificate(seen: Observed) -> Iterator[Finding]:
    secret = seen.named(SECRETS, TLS_SECRET, SYSTEM_NAMESPACE)
    certificate = _decoded(at(secret, "data", "tls.crt"))
    subject = f"Secret {SYSTEM_NAMESPACE}/{TLS_SECRET}"
    if not certificate:
        return
    try:
        end = validity(certificate)[1]
    except ValueError:
        yield Finding(subject, "tls.crt is no certificate", "delete the Secret: the webhook makes it anew")
        return
    if end <= seen.now:
        yield Finding(subject, f"its certificate ended at {end:%Y-%m-%d %H:%M} UTC", "restart the webhook, and see its log")
    elif end - seen.now < _SOON:
        problem = f"its certificate ends at {end:%Y-%m-%d %H:%M} UTC, and was not renewed"
        yield Finding(subject, problem, "see the log of the webhook that holds the lease, or cert-manager's")


def _decoded(text: object) -> str:
    try:
        return base64.b64decode(str(text or ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def leaders(seen: Observed) -> Iterator[Finding]:
    """Leases of the scheduler and the controller that nobody holds."""
    if LEASES in seen.unreadable:
        return
    namespace, name = (SYSTEM_NAMESPACE, SCHEDULER_NAME) if _in_cluster(seen) else ("kube-system", "kube-scheduler")
    for what, where, lease, effect in (
        ("scheduler", namespace, name, "no pod is given GPUs"),
        ("controller", SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT, "statuses get old, and nothing is scaled"),
    ):
        found = seen.named(LEASES, lease, where)
        if is_fresh(found, seen.now):
            continue
        age = None if found is None else age_s(found, seen.now)
        problem = "nobody ever held it" if age is None else f"nobody has renewed it for {age:.0f} s"
        yield Finding(f"Lease {where}/{lease}", f"{problem}: {effect}", f"see the pods and logs of the {what}")


def _in_cluster(seen: Observed) -> bool:
    """Whether the programs run as pods: then the API server asks a Service."""
    hooks = at(seen.named(MUTATING_WEBHOOKS, CONFIGURATION), "webhooks") or ()
    return any(at(hook, "clientConfig", "service") for hook in hooks) or bool(seen.of(OWN_DEPLOYMENTS))


def deployments(seen: Observed) -> Iterator[Finding]:
    """Deployments of our namespace whose pods are not there."""
    for item in seen.of(OWN_DEPLOYMENTS):
        wanted, ready = at(item, "spec", "replicas") or 0, at(item, "status", "readyReplicas") or 0
        if ready >= wanted:
            continue
        why = at(condition(item, "ReplicaFailure"), "message") or at(condition(item, "Available"), "message") or ""
        problem = f"{ready} of {wanted} pods are ready" + (f": {why}" if why else "")
        name = name_of(item)
        yield Finding(f"Deployment {SYSTEM_NAMESPACE}/{name}", problem, f"kubectl describe pods -n {SYSTEM_NAMESPACE}")
