"""Everything that runs in a cluster, as manifests: pure functions of values, which `ControlPlane` deploys (Part 6; SPEC §9)."""

from tensorfusion_iac.components.platform.foundation import namespaces, priority_classes, runtime_class
from tensorfusion_iac.components.platform.rights import (
    agent_rights,
    controller_rights,
    kube_scheduler_rights,
    scheduler_rights,
    service_accounts,
    webhook_rights,
)
from tensorfusion_iac.components.platform.user_roles import user_roles

__all__ = [
    "agent_rights", "controller_rights", "kube_scheduler_rights", "namespaces", "priority_classes", "runtime_class",
    "scheduler_rights", "service_accounts", "user_roles", "webhook_rights",
]  # fmt: skip
