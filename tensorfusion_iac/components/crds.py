"""`CustomResourceDefinitions`: the CRDs of `tensor-fusion.ai`, kept when the stack goes (API.md; research/pulumi.md §3).

Deleting a CRD deletes every object of its kind, so `destroy` leaves them. They are applied as patches, which create what is
missing and take over what is there: that holds for provider 4.25, whose create is an upsert, and for 4.29 and later, whose
create is not.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

import pulumi
import pulumi_kubernetes as k8s

from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.components.component import Checks, Component


class CustomResourceDefinitionsArguments(TypedDict, total=False):
    """CustomResourceDefinitions takes no arguments beside its name and options."""


class CustomResourceDefinitions(Component):
    """All CRDs of the package. `resources` are the children, by plural name; each is awaited until it is established."""

    resources: dict[str, k8s.apiextensions.v1.CustomResourceDefinitionPatch]

    def __init__(
        self,
        resource_name: str,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **arguments: Unpack[CustomResourceDefinitionsArguments],
    ) -> None:
        super().__init__(resource_name, {}, opts)
        self.resources = {}
        checks = Checks(arguments, (), {})
        if checks.problems:
            self._refuse(checks.problems)
            return
        for manifest in crds():
            metadata = manifest["metadata"]
            plural = manifest["spec"]["names"]["plural"]
            annotations = {
                **metadata.get("annotations", {}),
                "pulumi.com/patchForce": "true",
                "pulumi.com/waitFor": "condition=Established",
            }
            self.resources[plural] = k8s.apiextensions.v1.CustomResourceDefinitionPatch(
                f"{resource_name}-{plural}",
                metadata={**metadata, "annotations": annotations},
                spec=manifest["spec"],
                opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
            )
        self.register_outputs({"names": sorted(self.resources)})
