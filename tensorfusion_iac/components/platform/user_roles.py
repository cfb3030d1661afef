"""Roles for people: who may see and change what is declared (Part 6). Pure.

`tensor-fusion-view` and `-edit` go into Kubernetes' own `view` and `edit` by aggregation, for what a namespace's users declare;
`tensor-fusion-admin` is bound by hand to those who own pools and quotas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorfusion_iac.api.names import GROUP
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest

_READ = ["get", "list", "watch"]
_WRITE = ["create", "update", "patch", "delete", "deletecollection"]
_DECLARED = ["workloadprofiles", "tensorfusionworkloads"]


def user_roles() -> Iterator[Manifest]:
    """The three roles."""
    yield _role("view", [_rule(_DECLARED, _READ)], aggregate_to="view")
    scale = _rule(["tensorfusionworkloads/scale"], ["get", "update", "patch"])
    yield _role("edit", [_rule(_DECLARED, [*_READ, *_WRITE]), scale], aggregate_to="edit")
    yield _role("admin", [_rule(["gpupools", "gpuresourcequotas"], [*_READ, *_WRITE]), _rule(["gpus", "gpunodes"], _READ)])


def _role(name: str, rules: Sequence[Manifest], aggregate_to: str = "") -> Manifest:
    aggregation = {f"rbac.authorization.k8s.io/aggregate-to-{aggregate_to}": "true"} if aggregate_to else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"tensor-fusion-{name}", "labels": LABELS | aggregation},
        "rules": list(rules),
    }


def _rule(resources: Sequence[str], verbs: Sequence[str]) -> Manifest:
    return {"apiGroups": [GROUP], "resources": list(resources), "verbs": list(verbs)}
