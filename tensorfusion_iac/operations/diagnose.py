"""`diagnose`: everything that is wrong with a cluster, from what was read of it. Pure; the rules are in the modules beside it."""

from __future__ import annotations

from collections.abc import Iterator

from tensorfusion_iac.operations import installation, nodes, programs
from tensorfusion_iac.operations.finding import Finding
from tensorfusion_iac.operations.observed import Observed

RULES = (
    installation.definitions, installation.namespaces, installation.policies,
    programs.webhook, programs.leaders, programs.deployments,
    nodes.pools, nodes.agents, nodes.cards,
)  # fmt: skip


def diagnose(seen: Observed) -> list[Finding]:
    """The findings, from what everything depends on to single cards. Empty: nothing is wrong that can be seen from here."""
    unreadable = [
        Finding(resource.kind, f"it cannot be looked at: {why}", "ask as somebody who may, for example a cluster administrator")
        for resource, why in seen.unreadable.items()
    ]
    if not installation.is_installed(seen) and not unreadable:
        return [Finding("cluster", "TensorFusion is not installed: none of its CRDs is there", "deploy ControlPlane")]
    return [*unreadable, *_found(seen)]


def _found(seen: Observed) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(seen)
