"""ValidatingAdmissionPolicies: what must hold of pods even where our webhook is not asked, or its answer is not heeded.

They are CEL, judged inside the API server, so they work without any program of ours. They refuse what would take a GPU past
the scheduler and the ledger: enabled pods that were not mutated, our scheduler, resource or system annotations on other pods,
edits of system annotations and of our labels, and bindings that carry them (issue of admission, "Backstop"; SPEC §2, §9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.admission.configuration import excluded
from tensorfusion_iac.api.names import (
    API_VERSION,
    COMPONENT_LABEL,
    CONTROLLER_ACCOUNT,
    ENABLED_LABEL,
    POOL_LABEL,
    PREFIX,
    RESOURCE,
    SCHEDULER_ACCOUNT,
    SCHEDULER_NAME,
    SYSTEM_KEYS,
    SYSTEM_KEYS_BY_CONTAINER,
    WORKLOAD_LABEL,
    account_user,
    key,
)

SCHEDULER_USER = account_user(SCHEDULER_ACCOUNT)
CONTROLLER_USER = account_user(CONTROLLER_ACCOUNT)
_REGISTRATION = "admissionregistration.k8s.io/v1"
_LABELS = (ENABLED_LABEL, COMPONENT_LABEL, POOL_LABEL, WORKLOAD_LABEL)

Rules = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
"""Requests of the API server: group, plurals, operations."""


@dataclass(frozen=True, slots=True)
class Check:
    """One CEL expression that must be true, and what is said if it is not."""

    expression: str
    message: str


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy and its binding. `only_if` narrows `resources` to some requests.

    `actions` are what happens if a check fails: Deny, Warn, Audit. With `param_kind`, it holds only in namespaces that have
    such an object.
    """

    name: str
    resources: Rules
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
    """All policies and bindings. `scheduler` and `controllers` are the users that may write system annotations and labels."""
    return [item for policy in policies(scheduler, controllers) for item in policy.objects()]


def policies(scheduler: str = SCHEDULER_USER, controllers: Sequence[str] = (CONTROLLER_USER,)) -> tuple[Policy, ...]:
    """All policies."""
    ours = (scheduler, *controllers)
    return (
        _mutated(), _not_ours(), _resource(), _system_annotations(ours), _labels(ours), _bindings(scheduler),
        _devices("audit", ("Audit",), None), _devices("quota", ("Deny",), "GPUResourceQuota"),
        _enabled("pods", _PODS_CREATED, "object"),
        _enabled("templates", _TEMPLATES, "object.spec.template", _template_asks),
        _enabled("cron-templates", _CRON_TEMPLATES, "object.spec.jobTemplate.spec.template", _template_asks),
    )  # fmt: skip


_WRITES = ("CREATE", "UPDATE")
_TEMPLATES = (
    ("apps", ("deployments", "statefulsets", "replicasets", "daemonsets"), _WRITES),
    ("batch", ("jobs",), _WRITES),
)
_CRON_TEMPLATES = (("batch", ("cronjobs",), _WRITES),)
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


def _resource() -> Policy:
    """Only our scheduler hands out the resource: under any other a pod that asks for it waits for ever, and nothing says why."""
    return Policy(
        "tensor-fusion-resource", _PODS_CREATED,
        (Check(f"object.spec.schedulerName == '{SCHEDULER_NAME}' || ({_every_container(_ASKS_NOT, 'object.spec')})",
               f"{RESOURCE} is asked for by hand, and this pod would wait for it for ever; remove the resource, and say how much "
               f"GPU it needs by annotations and the label {ENABLED_LABEL}: \"true\""),),
    )  # fmt: skip


# dyn: the API server's type checker knows no map of quantities.
_ASKS_NOT = "!has(ONE.resources) || " + " && ".join(
    f"(!has(dyn(ONE.resources).{side}) || !('{RESOURCE}' in dyn(ONE.resources).{side}))" for side in ("limits", "requests")
)


def _labels(users: Sequence[str]) -> Policy:
    """Our labels hold for a pod's life: the slots of a grey release are counted by them, and workers found (SPEC §5, §9)."""
    keys = ", ".join(f"'{name}'" for name in _LABELS)
    return Policy(
        "tensor-fusion-labels", _PODS_CHANGED,
        (Check(f"[{keys}].all(name, variables.after[?name] == variables.before[?name])",
               f"the labels {', '.join(_LABELS)} are set when a pod is created, and hold for its life; "
               "change the pod's template, so that new pods are made"),),
        only_if={"others": f"!({_is_one_of(users)})"},
        variables={
            moment: f"has({item}.metadata.labels) ? {item}.metadata.labels : {{}}"
            for moment, item in (("after", "object"), ("before", "oldObject"))
        },
    )  # fmt: skip


def _is_one_of(users: Sequence[str]) -> str:
    """CEL: whether one of these users asks."""
    return f"request.userInfo.username in [{', '.join(repr(user) for user in users)}]"


def _system_annotations(users: Sequence[str]) -> Policy:
    """System annotations stay as they are: a container reads them again at each restart."""
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
            "others": f"!({_is_one_of(users)})",
            "ours": f"({any_of_ours.replace('ANY', 'object')}) || ({any_of_ours.replace('ANY', 'oldObject')})",
        },
        variables={"after": _ANNOTATIONS, "before": _ANNOTATIONS.replace("object.", "oldObject.")},
    )  # fmt: skip


def _bindings(scheduler: str) -> Policy:
    """kube-apiserver copies a Binding's annotations and labels to the pod, by either resource, so that writes them too."""
    return Policy(
        "tensor-fusion-bindings", (("", ("pods/binding", "bindings"), ("CREATE",)),),
        tuple(
            Check(f"!has(object.metadata.{field}) || !object.metadata.{field}.exists(name, name.startsWith('{PREFIX}'))",
                  f"only TensorFusion's scheduler binds pods with TensorFusion's {field}")
            for field in ("annotations", "labels")
        ),
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
    return Policy(
        f"tensor-fusion-devices-{name}", (*_PODS_CREATED, ("", ("pods/ephemeralcontainers",), ("UPDATE",))),
        (Check(_every_container(check, "object.spec", "ephemeralContainers"),
               "NVIDIA_VISIBLE_DEVICES is set by hand and shows the container GPUs that others may hold; remove it"),),
        actions=actions, param_kind=param_kind,
    )  # fmt: skip


def _enabled(name: str, resources: Rules, pod: str, *more: Callable[[str], Check]) -> Policy:
    """Words that look as if they turned TensorFusion on, and do not; and `more` that is to be said of a pod or a template."""
    labels, annotations = f"{pod}.metadata.labels", f"{pod}.metadata.annotations"
    return Policy(
        f"tensor-fusion-enabled-{name}", resources,
        (
            Check(f"!({_exists(labels)}) || !('{ENABLED_LABEL}' in {labels}) || {labels}['{ENABLED_LABEL}'] in ['true', 'false']",
                  f'label {ENABLED_LABEL} turns TensorFusion on with "true" only; with this value it does nothing'),
            Check(f"!({_exists(annotations)}) || !('{ENABLED_LABEL}' in {annotations})",
                  f'{ENABLED_LABEL} is a label, not an annotation; here it does nothing'),
            *(check(pod) for check in more),
        ),
        actions=("Warn",),
    )  # fmt: skip


def _template_asks(template: str) -> Check:
    """What becomes of a template's pods by `_resource`, said where its author sees it."""
    labels, spec = f"{template}.metadata.labels", f"{template}.spec"
    enabled = f"{_exists(labels)} && {labels}[?'{ENABLED_LABEL}'].orValue('') == 'true'"
    return Check(
        f"({enabled}) || !({_exists(spec)}) || ({_every_container(_ASKS_NOT, spec)})",
        f'{RESOURCE} is asked for by hand, without the label {ENABLED_LABEL}: "true"; the pods will be refused',
    )


def _exists(path: str) -> str:
    """CEL: whether every step of a path, `object.spec...`, is there."""
    steps = path.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _every_container(check: str, spec: str, *more: str) -> str:
    """CEL: whether `check`, in which a container is ONE, holds for every container of a pod's spec; of the lists `more` too."""
    return " && ".join(
        f"(!has({spec}.{group}) || {spec}.{group}.all(one, {check.replace('ONE', 'one')}))"
        for group in ("containers", "initContainers", *more)
    )


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "tensor-fusion"}
    return {"apiVersion": _REGISTRATION, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": dict(spec)}
