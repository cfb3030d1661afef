"""`ControlPlane`: what makes the annotations true in a cluster (API.md; SPEC §9; Part 6).

With `runtime="cluster"` everything runs as pods; with `"local"` the programs are processes of the embedded control plane, and
only what the API server needs to know of them is declared; with `"external"` another operator runs the show, and nothing is.
Last of all come the webhook's configurations, which count as made once the API server trusts what they lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Unpack

import pulumi

from tensorfusion_iac.admission.agent_policy import agent_policy_objects
from tensorfusion_iac.admission.configuration import Address, Service, webhook_configurations
from tensorfusion_iac.admission.policies import policy_objects
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.components import platform
from tensorfusion_iac.components.component import Component, of_metadata
from tensorfusion_iac.components.control_plane_arguments import ControlPlaneArguments, checked, settings_of
from tensorfusion_iac.components.crds import CustomResourceDefinitions
from tensorfusion_iac.components.manifest_resource import resource

_TRUSTED = "jsonpath={.webhooks[0].clientConfig.caBundle}"
_PATIENCE_S = 300.0

Needed = Sequence[pulumi.Resource]


class ControlPlane(Component):
    """The platform. `depends_on=[platform]` waits for all of it. `namespaces`: of the programs, "system", and "agents"."""

    namespaces: Mapping[str, pulumi.Output[str]]

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[ControlPlaneArguments]
    ) -> None:
        checks = checked(arguments)
        given = checks.arguments
        super().__init__(resource_name, given, opts)
        self.namespaces = {}
        if checks.problems:
            self._refuse(checks.problems)
            return
        self._prefix, self._timeout_s = resource_name, given.get("timeout_s", _PATIENCE_S)
        crds: list[pulumi.Resource] = []
        if given.get("crds", given["runtime"] != "external"):
            crds = [CustomResourceDefinitions(f"{resource_name}-crds", opts=pulumi.ResourceOptions(parent=self))]
        if given["runtime"] == "local":
            base = self._base(platform.namespaces())
            accounts = self._declare(_rights(platform.webhook_rights(), platform.scheduler_rights()), base)
            policies = self._policies([*base, *crds])
            self._configure(webhook_configurations(Address(given["webhook_url"])), [*accounts, *policies, *crds])
        elif given["runtime"] == "cluster":
            self._in_cluster(settings_of(given), crds)
        self.register_outputs({})

    def _in_cluster(self, settings: platform.Settings, crds: Needed) -> None:
        if settings.image == platform.IMAGE:
            message = "{accepted} has to be on the nodes already; build it from the Dockerfile, push it, and name it here"
            self._warn([Problem("image", "not given", settings.image, message)])
        level = "privileged" if settings.webhook_host_network else "restricted"
        base = self._base(platform.namespaces(level))
        scheduler = [*platform.scheduler_rights(platform.LEASE), *platform.kube_scheduler_rights(platform.LEASE)]
        rights = _rights(platform.webhook_rights(settings.certificates), scheduler)
        accounts = self._declare([*rights, *platform.user_roles()], base)
        policies = self._policies([*base, *crds])
        fences = self._declare(platform.network_policies(settings), base)
        by_cert_manager = settings.certificates == "cert-manager"
        certificate = self._declare(platform.certificate() if by_cert_manager else (), base)
        ready = [*base, *accounts, *crds, *fences, *certificate]
        programs = [*platform.controller(settings), *platform.webhook(settings), *platform.scheduler(settings)]
        running = self._declare(map(self._patient, programs), ready)
        if settings.monitoring is not None:
            self._declare(platform.monitors(settings), base)
        if settings.agents is not None:
            # The policies hold each agent to its node, so that they are there before the first.
            granted = self._declare(platform.agent_rights(), base)
            self._declare(platform.agents(settings, settings.agents), [*ready, *granted, *policies])
        configurations: Iterable[Mapping[str, Any]] = webhook_configurations(Service())
        if by_cert_manager:
            configurations = map(platform.injected, configurations)
        self._configure(configurations, [*running, *policies])

    def _base(self, namespaces: Iterable[Mapping[str, Any]]) -> list[pulumi.CustomResource]:
        made = self._declare([*namespaces, *platform.priority_classes()], [])
        self.namespaces = {"system": of_metadata(made[0], "name"), "agents": of_metadata(made[1], "name")}
        return made

    def _policies(self, depends_on: Needed) -> list[pulumi.CustomResource]:
        return self._declare([*policy_objects(), *agent_policy_objects()], depends_on)

    def _configure(self, configurations: Iterable[Mapping[str, Any]], depends_on: Needed) -> None:
        self._declare([self._patient(item, _TRUSTED) for item in configurations], depends_on)

    def _patient(self, manifest: Mapping[str, Any], wait_for: str = "") -> Mapping[str, Any]:
        """A manifest that is waited for so long; without `wait_for`, until it is what Pulumi takes for ready."""
        metadata = manifest["metadata"]
        annotations = {**metadata.get("annotations", {}), "pulumi.com/timeoutSeconds": f"{self._timeout_s:.0f}"}
        if wait_for:
            annotations["pulumi.com/waitFor"] = wait_for
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}

    def _declare(self, manifests: Iterable[Mapping[str, Any]], depends_on: Needed) -> list[pulumi.CustomResource]:
        options = pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))
        return [resource(_name(self._prefix, manifest), manifest, options) for manifest in manifests]


def _rights(*granted: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The accounts, what each `granted` says, and what is the controller's wherever it runs."""
    return [*platform.service_accounts(), *chain(*granted), *platform.controller_rights()]


def _name(prefix: str, manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return "-".join(part for part in (prefix, manifest["kind"], metadata.get("namespace", ""), metadata["name"]) if part)
