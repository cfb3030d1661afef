"""ValidatingAdmissionPolicies for the agents: a node's agent writes the objects of its own node (SPEC §9, R9).

All agents share one service account, and RBAC cannot tell nodes apart. But each pod's token carries its node's name, which
the API server puts there and hands to CEL; a token without one writes nothing at all.
"""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.admission.policies import Check, Policy
from tensorfusion_iac.api.names import AGENT_ACCOUNT, AGENT_LEASE_PREFIX, AGENT_NAMESPACE, GROUP, account_user

AGENT_USER = account_user(AGENT_ACCOUNT, AGENT_NAMESPACE)
_CLAIM = "authentication.kubernetes.io/node-name"
_EXTRA = "request.userInfo.extra"
_NODE = f"has({_EXTRA}) && '{_CLAIM}' in {_EXTRA} ? {_EXTRA}['{_CLAIM}'][0] : ''"
_WRITES = ("CREATE", "UPDATE")


def agent_policy_objects() -> list[dict[str, Any]]:
    """The policies and bindings. They hold in every namespace, since heartbeats are in kube-node-lease."""
    objects = [item for policy in _policies() for item in policy.objects()]
    for item in objects:
        item["spec"].get("matchConstraints", {}).pop("namespaceSelector", None)
    return objects


def _policies() -> tuple[Policy, ...]:
    owners = "ITEM.metadata.ownerReferences"
    owned = f"has({owners}) && {owners}.exists(owner, owner.kind == 'Node' && owner.name == variables.node)"
    before, after = owned.replace("ITEM", "oldObject"), owned.replace("ITEM", "object")
    node_name = "!has(object.status) || !has(object.status.nodeName) || object.status.nodeName == variables.node"
    return (
        _policy("gpus", ((GROUP, ("gpus", "gpus/status"), _WRITES),), f"{after} && ({node_name})",
                f"oldObject == null || ({before})"),
        _policy("gpunodes", ((GROUP, ("gpunodes", "gpunodes/status"), _WRITES),), "object.metadata.name == variables.node"),
        _policy("leases", (("coordination.k8s.io", ("leases",), _WRITES),),
                f"object.metadata.name == '{AGENT_LEASE_PREFIX}' + variables.node"),
        _policy("events", (("", ("events",), _WRITES),),
                "object.involvedObject.kind == 'Pod' && has(object.source) && has(object.source.host)"
                " && object.source.host == variables.node"),
    )  # fmt: skip


def _policy(name: str, resources: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...], *allowed: str) -> Policy:
    message = f"the agent of a node writes {name} of its own node, and no others"
    return Policy(
        f"tensor-fusion-agent-{name}", resources,
        (
            Check("variables.node != ''", "a token of the agents' account that belongs to no node writes nothing"),
            *(Check(cel, message) for cel in allowed),
        ),
        only_if={"agents": f"request.userInfo.username == '{AGENT_USER}'"},
        variables={"node": _NODE},
    )  # fmt: skip
