"""`ControlPlane`: what makes the annotations true in a cluster, as far as it exists (API.md; SPEC §9).

With `runtime="local"` the programs run beside the API server, as processes of the embedded control plane; what the API server
needs to know of them is declared here: CRDs, namespaces, accounts and their rights, priority classes, admission policies, and
last of all the webhook's configurations, which are awaited until the webhook has put its authority into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Required, TypedDict, Unpack

import pulumi

from tensorfusion_iac.admission.configuration import Address, webhook_configurations
from tensorfusion_iac.admission.policies import policy_objects
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components import platform
from tensorfusion_iac.components.component import Checks, Component
from tensorfusion_iac.components.crds import CustomResourceDefinitions
from tensorfusion_iac.components.manifest_resource import resource

_TRUSTED = "jsonpath={.webhooks[0].clientConfig.caBundle}"


class ControlPlaneArguments(TypedDict, total=False):
    """Arguments of ControlPlane. `crds=False` where the CRDs are managed elsewhere."""

    runtime: Required[Literal["local"]]
    webhook_url: Required[str]
    crds: bool


class ControlPlane(Component):
    """The platform. `depends_on=[platform]` waits for all of it."""

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[ControlPlaneArguments]
    ) -> None:
        required = {
            "runtime": '"local": the programs of the embedded control plane',
            "webhook_url": "the https URL at which the API server reaches the webhook",
        }
        checks = Checks(arguments, ControlPlaneArguments.__annotations__, required)
        checks.flag("crds", deferrable=False)
        given = checks.arguments
        checks.problems += _wrong(given)
        super().__init__(resource_name, {} if checks.problems else given, opts)
        if checks.problems:
            self._refuse(checks.problems)
            return
        crds: list[pulumi.Resource] = []
        if given.get("crds", True):
            crds = [CustomResourceDefinitions(f"{resource_name}-crds", opts=pulumi.ResourceOptions(parent=self))]
        base = self._declare(resource_name, [*platform.namespaces(), *platform.priority_classes()], [])
        rights = [
            *platform.service_accounts(), *platform.webhook_rights(), *platform.scheduler_rights(),
            *platform.controller_rights(),
        ]  # fmt: skip
        accounts = self._declare(resource_name, rights, base)
        policies = self._declare(resource_name, policy_objects(), [*base, *crds])
        configurations = [awaited(item) for item in webhook_configurations(Address(given["webhook_url"]))]
        self._declare(resource_name, configurations, [*accounts, *policies, *crds])
        self.register_outputs({})

    def _declare(
        self, prefix: str, manifests: Iterable[Mapping[str, Any]], depends_on: list[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        options = pulumi.ResourceOptions(parent=self, depends_on=depends_on)
        return [resource(_name(prefix, manifest), manifest, options) for manifest in manifests]


def awaited(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A webhook configuration that counts as made once the webhook has put its authority into it."""
    metadata = configuration["metadata"]
    annotations = {"pulumi.com/waitFor": _TRUSTED, "pulumi.com/timeoutSeconds": "120"}
    return {**configuration, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def _name(prefix: str, manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return "-".join(part for part in (prefix, manifest["kind"], metadata.get("namespace", ""), metadata["name"]) if part)


def _wrong(given: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if given.get("runtime", "local") != "local":
        problems.append(Problem("runtime", quote(given["runtime"]), '"local"', "{found} is not {accepted}, the only one so far"))
    url = given.get("webhook_url", "https://")
    if not isinstance(url, str) or not url.startswith("https://"):
        problems.append(Problem("webhook_url", quote(url), "an https URL"))
    return problems
