"""Whether what the API server has to know of us is there: CRDs, namespaces, policies (SPEC §1, §4, §9). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorfusion_iac._version import __version__
from tensorfusion_iac.admission.agent_policy import agent_policy_objects
from tensorfusion_iac.admission.confinement import POD_SECURITY_LABEL
from tensorfusion_iac.admission.policies import policy_objects
from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.api.names import AGENT_NAMESPACE, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.resource import CRDS, NAMESPACES
from tensorfusion_iac.operations.finding import Finding
from tensorfusion_iac.operations.observed import Observed, at, condition, name_of
from tensorfusion_iac.operations.observing import BINDINGS, POLICIES

_LEVELS = {SYSTEM_NAMESPACE: ("restricted", "privileged"), AGENT_NAMESPACE: ("privileged",)}
"""What our namespaces may enforce; the first is the usual one."""


def is_installed(seen: Observed) -> bool:
    """Whether there is any CRD of ours."""
    ours = {definition["metadata"]["name"] for definition in crds()}
    return any(name_of(item) in ours for item in seen.of(CRDS))


def definitions(seen: Observed) -> Iterator[Finding]:
    """CRDs that are missing, of another version of ours, or not served."""
    there = {name_of(item): item for item in seen.of(CRDS)}
    for wanted in crds():
        name = wanted["metadata"]["name"]
        found = there.get(name)
        subject = f"CustomResourceDefinition {name}"
        if found is None:
            yield Finding(subject, "it is missing", "deploy ControlPlane or CustomResourceDefinitions, or `tensorfusion crds`")
        elif at(condition(found, "Established"), "status") != "True":
            reason = at(condition(found, "NamesAccepted"), "message") or "it is not established"
            yield Finding(subject, str(reason), "see what else defines resources of this name")
        elif _schemas(found) != _schemas(wanted):
            yield Finding(
                subject, f"its schema is not that of tensorfusion-iac {__version__}, which asks",
                "use the `tensorfusion` of the version that is installed, or run `pulumi up` with this one",
            )  # fmt: skip


def _schemas(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {version["name"]: at(version, "schema") for version in at(definition, "spec", "versions") or ()}


def namespaces(seen: Observed) -> Iterator[Finding]:
    """Our namespaces, and the Pod Security level that each enforces."""
    there = {name_of(item): item for item in seen.of(NAMESPACES)}
    for name, levels in _LEVELS.items():
        found = there.get(name)
        if found is None:
            yield Finding(f"Namespace {name}", "it is missing", "deploy ControlPlane")
            continue
        level = (at(found, "metadata", "labels") or {}).get(POD_SECURITY_LABEL)
        if level not in levels:
            problem = f"its label {POD_SECURITY_LABEL} is {level}" if level else f"it has no label {POD_SECURITY_LABEL}"
            yield Finding(f"Namespace {name}", problem, f"set it to {levels[0]}, or run `pulumi up` again")


def policies(seen: Observed) -> Iterator[Finding]:
    """Admission policies that are missing, or that no binding puts into force."""
    there = {kind: {name_of(item) for item in seen.of(kind)} for kind in (POLICIES, BINDINGS)}
    expected = [
        (kind, str(item["metadata"]["name"]))
        for item in [*policy_objects(), *agent_policy_objects()]
        for kind in (POLICIES, BINDINGS)
        if item["kind"] == kind.kind and kind not in seen.unreadable
    ]
    missing = [(kind, name) for kind, name in expected if name not in there[kind]]
    what = "system annotations can be forged, or an agent can write what is another node's"
    if expected and missing == expected:
        yield Finding("ValidatingAdmissionPolicy", f"all of ours are missing: {what}", "deploy ControlPlane")
        return
    for kind, name in missing:
        yield Finding(f"{kind.kind} {name}", f"it is missing: {what}", "deploy ControlPlane again")
