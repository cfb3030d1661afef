"""ValidatingAdmissionPolicies: what must hold of pods even where our webhook is not asked, or its answer is not heeded.

They are CEL, judged inside the API server, so they work without any program of ours. They refuse what would take a GPU past
the scheduler and the ledger: enabled pods that were not mutated, our scheduler or system annotations on other pods, edits of
system annotations, and bindings that carry them (issue of admission, "Backstop"; SPEC §2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.admission.configuration import excluded
from tensorfusion_iac.api.names import (
    API_VERSION,
    CONTROLLER_ACCOUNT,
    ENABLED_LABEL,
    PREFIX,
    SCHEDULER_ACCOUNT,
    SCHEDULER_NAME,
    SYSTEM_KEYS,
    SYSTEM_KEYS_BY_CONTAINER,
    account_user,
    key,
)

SCHEDULER_USER = account_user(SCHEDULER_ACCOUNT)
CONTROLLER_USER = account_user(CONTROLLER_ACCOUNT)
_REGISTRATION = "admissionregistration.k8s.io/v1"
_TEMPLATE_GROUPS = {"apps": ["deployments", "statefulsets", "replicasets", "daemonsets"], "batch": ["jobs"]}


@dataclass(frozen=True, slots=True)
class Check:
    """One CEL expression that must be true, and what is said if it is not."""

    expression: str
    message: str


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy and its binding. `resources` are (group, plural, operations); `only_if` narrows it to some requests.

    `actions` are what happens if a check fails: Deny, Warn, Audit. With `param_kind`, it holds only in namespaces that have
    such an object.
    """

    name: str
    resources: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    checks: tuple[Check, ...]
    only_if: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    actions: tuple[str, ...] = ("Deny",)
    param_kind: str | None = None

    def objects(self) -> Iterator[dict[str, Any]]:
        """The ValidatingAdmissionPolicy and its binding."""
        spec: dict[str, Any] = {
            # A namespace without our CRD must not be held up by it.
            "failurePolicy": "Ignore" if self.param_kind else "Fail",
            "matchConstraints": {
                "namespaceSelector": excluded(),
                "resourceRules": [
                    {"apiGroups": [group], "apiVersions": ["v1"], "resources": list(plurals), "operations": list(operations)}
                    for group, plurals, operations in self.resources
                ],
            },
            "matchConditions": [{"name": name, "expression": cel} for name, cel in self.only_if.items()],
            "variables": [{"name": name, "expression": cel} for name, cel in self.variables.items()],
            "validations": [{"expression": check.expression, "message": check.message} for check in self.checks],
        }
        binding: dict[str, Any] = {"policyName": self.name, "validationActions": list(self.actions)}
        if self.param_kind is not None:
            spec["paramKind"] = {"apiVersion": API_VERSION, "kind": self.param_kind}
            binding["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
        yield _object("ValidatingAdmissionPolicy", self.name, {name: value for name, value in spec.items() if value})
        yield _object("ValidatingAdmissionPolicyBinding", self.name, binding)


def policy_objects(scheduler: str = SCHEDULER_USER, controllers: Sequence[str] = (CONTROLLER_USER,)) -> list[dict[str, Any]]:
    """All policies and bindings. `scheduler` and `controllers` are the users that may write system annotations."""
    return [item for policy in policies(scheduler, controllers) for item in policy.objects()]


def policies(scheduler: str = SCHEDULER_USER, controllers: Sequence[str] = (CONTROLLER_USER,)) -> tuple[Policy, ...]:
    """All policies."""
    return (
        _mutated(), _not_ours(), _system_annotations((scheduler, *controllers)), _bindings(scheduler),
        _devices("audit", ("Audit",), None), _devices("quota", ("Deny",), "GPUResourceQuota"),
        _enabled("pods", (("", ("pods",), ("CREATE",)),), "object.metadata"),
        _enabled("templates", tuple((group, tuple(plurals), _WRITES) for group, plurals in _TEMPLATE_GROUPS.items()),
                 "object.spec.template.metadata"),
        _enabled("cron-templates", (("batch", ("cronjobs",), _WRITES),), "object.spec.jobTemplate.spec.template.metadata"),
    )  # fmt: skip


_WRITES = ("CREATE", "UPDATE")
_PODS_CREATED = (("", ("pods",), ("CREATE",)),)
_PODS_CHANGED = (("", ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"), ("UPDATE",)),)
_ENABLED = f"has(object.metadata.labels) && object.metadata.labels[?'{ENABLED_LABEL}'].orValue('') == 'true'"
_ANNOTATIONS = "has(object.metadata.annotations) ? object.metadata.annotations : {}"


def _system_key(name: str) -> str:
    """CEL: whether `name`, an annotation's key, is one that only the system writes."""
    keys = ", ".join(f"'{key(short)}'" for short in SYSTEM_KEYS)
    families = " || ".join(f"{name}.startsWith('{key(short)}.')" for short in SYSTEM_KEYS_BY_CONTAINER)
    return f"({name} in [{keys}] || {families})"


def _mutated() -> Policy:
    """An enabled pod has been through the webhook, and goes through the scheduler."""
    resolved, grey = key("resolved"), key("grey")
    seen = f"'{resolved}' in variables.annotations || variables.annotations[?'{grey}'].orValue('') == 'off'"
    placed = (
        f"!('{resolved}' in variables.annotations) || variables.annotations['{resolved}'].contains('\"mode\":\"remote\"')"
        f" || object.spec.schedulerName == '{SCHEDULER_NAME}'"
    )
    return Policy(
        "tensor-fusion-mutated", _PODS_CREATED,
        (
            Check(seen, f"{ENABLED_LABEL} is true, but the TensorFusion webhook has not seen this pod; is it installed?"),
            Check(placed, f"a pod that holds a vGPU needs schedulerName {SCHEDULER_NAME}; something has changed it back"),
            Check("!has(object.spec.nodeName) || object.spec.nodeName == ''",
                  "spec.nodeName passes by the scheduler, which chooses the GPUs; use a nodeSelector"),
        ),
        only_if={"enabled": _ENABLED}, variables={"annotations": _ANNOTATIONS},
    )  # fmt: skip


def _not_ours() -> Policy:
    """A pod that is not enabled has nothing of ours."""
    return Policy(
        "tensor-fusion-not-enabled", _PODS_CREATED,
        (
            Check(f"object.spec.schedulerName != '{SCHEDULER_NAME}'",
                  f"schedulerName {SCHEDULER_NAME} is for pods with the label {ENABLED_LABEL}: \"true\""),
            Check(f"variables.annotations.all(name, !{_system_key('name')})",
                  f"the pod is not enabled (label {ENABLED_LABEL}), and has annotations that only TensorFusion writes"),
        ),
        only_if={"not-enabled": f"!({_ENABLED})"}, variables={"annotations": _ANNOTATIONS},
    )  # fmt: skip


def _system_annotations(users: Sequence[str]) -> Policy:
    """System annotations stay as they are: a container reads them again at each restart."""
    mine = f"request.userInfo.username in [{', '.join(repr(user) for user in users)}]"
    same = (
        f"variables.after.all(name, !{_system_key('name')}"
        " || (name in variables.before && variables.before[name] == variables.after[name]))"
        f" && variables.before.all(name, !{_system_key('name')} || name in variables.after)"
    )
    any_of_ours = f"has(ANY.metadata.annotations) && ANY.metadata.annotations.exists(name, name.startsWith('{PREFIX}'))"
    return Policy(
        "tensor-fusion-system-annotations", _PODS_CHANGED,
        (Check(same, "only TensorFusion's scheduler and controller change its system annotations (resolved, gpu-ids, ...)"),),
        only_if={
            "others": f"!({mine})",
            "ours": f"({any_of_ours.replace('ANY', 'object')}) || ({any_of_ours.replace('ANY', 'oldObject')})",
        },
        variables={"after": _ANNOTATIONS, "before": _ANNOTATIONS.replace("object.", "oldObject.")},
    )  # fmt: skip


def _bindings(scheduler: str) -> Policy:
    """kube-apiserver copies a Binding's annotations to the pod, by either resource, so that writes them too."""
    return Policy(
        "tensor-fusion-bindings", (("", ("pods/binding", "bindings"), ("CREATE",)),),
        (Check(f"!has(object.metadata.annotations) || !object.metadata.annotations.exists(name, name.startsWith('{PREFIX}'))",
               "only TensorFusion's scheduler binds pods with TensorFusion's annotations"),),
        only_if={"others": f"request.userInfo.username != '{scheduler}'"},
    )  # fmt: skip


def _devices(name: str, actions: tuple[str, ...], param_kind: str | None) -> Policy:
    """NVIDIA_VISIBLE_DEVICES by hand shows a container any card of the node, whoever holds it."""
    own = f"metadata.annotations['{key('visible-devices.')}".replace("'", "\\'")
    harmless = (
        "(has(entry.value) && entry.value in ['void', 'none', '']) || (!has(entry.value) && !has(entry.valueFrom))"
        f" || (has(entry.valueFrom) && has(entry.valueFrom.fieldRef) && entry.valueFrom.fieldRef.fieldPath.startsWith('{own}'))"
    )
    check = f"!has(ONE.env) || ONE.env.all(entry, entry.name != 'NVIDIA_VISIBLE_DEVICES' || {harmless})"
    every = " && ".join(
        f"(!has(object.spec.{group}) || object.spec.{group}.all(one, {check.replace('ONE', 'one')}))"
        for group in ("containers", "initContainers", "ephemeralContainers")
    )
    return Policy(
        f"tensor-fusion-devices-{name}", (*_PODS_CREATED, ("", ("pods/ephemeralcontainers",), ("UPDATE",))),
        (Check(every, "NVIDIA_VISIBLE_DEVICES is set by hand and shows the container GPUs that others may hold; remove it"),),
        actions=actions, param_kind=param_kind,
    )  # fmt: skip


def _enabled(name: str, resources: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...], metadata: str) -> Policy:
    """Words that look as if they turned TensorFusion on, and do not."""
    steps = metadata.split(".")
    exists = " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))
    labels, annotations = f"{metadata}.labels", f"{metadata}.annotations"
    return Policy(
        f"tensor-fusion-enabled-{name}", resources,
        (
            Check(f"!has({labels}) || !('{ENABLED_LABEL}' in {labels}) || {labels}['{ENABLED_LABEL}'] in ['true', 'false']",
                  f'label {ENABLED_LABEL} turns TensorFusion on with "true" only; with this value it does nothing'),
            Check(f"!has({annotations}) || !('{ENABLED_LABEL}' in {annotations})",
                  f'{ENABLED_LABEL} is a label, not an annotation; here it does nothing'),
        ),
        only_if={"has-metadata": exists}, actions=("Warn",),
    )  # fmt: skip


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "tensor-fusion"}
    return {"apiVersion": _REGISTRATION, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": dict(spec)}
