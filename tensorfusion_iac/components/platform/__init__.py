"""Everything that runs in a cluster, as manifests: pure functions of values, which `ControlPlane` deploys (Part 6; SPEC §9)."""

from tensorfusion_iac.components.platform.agents import agents
from tensorfusion_iac.components.platform.cert_manager import certificate, injected
from tensorfusion_iac.components.platform.foundation import namespaces, priority_classes, runtime_class
from tensorfusion_iac.components.platform.monitoring import monitors
from tensorfusion_iac.components.platform.network import network_policies
from tensorfusion_iac.components.platform.programs import LEASE, controller, scheduler, webhook
from tensorfusion_iac.components.platform.rights import (
    agent_rights,
    controller_rights,
    kube_scheduler_rights,
    scheduler_rights,
    service_accounts,
    webhook_rights,
)
from tensorfusion_iac.components.platform.settings import IMAGE, Agents, Settings
from tensorfusion_iac.components.platform.user_roles import user_roles

__all__ = [
    "IMAGE", "LEASE", "Agents", "Settings", "agent_rights", "agents", "certificate", "controller", "controller_rights",
    "injected", "kube_scheduler_rights", "monitors", "namespaces", "network_policies", "priority_classes", "runtime_class",
    "scheduler", "scheduler_rights", "service_accounts", "user_roles", "webhook", "webhook_rights",
]  # fmt: skip
