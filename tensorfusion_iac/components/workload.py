"""`TensorFusionWorkload`: the vGPU workers of one top owner, declared by hand (API.md; SPEC §4)."""

from __future__ import annotations

from typing import Unpack

import pulumi

from tensorfusion_iac.api import resources
from tensorfusion_iac.components.component import of_metadata
from tensorfusion_iac.components.custom_resource import TensorFusionResource
from tensorfusion_iac.components.workload_spec import WorkloadSpecArguments, checked, shown, workload_spec


class TensorFusionWorkload(TensorFusionResource):
    """The vGPU workers that pods naming this workload share."""

    MODEL = resources.TensorFusionWorkload
    model: resources.TensorFusionWorkload | None

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[WorkloadSpecArguments]
    ) -> None:
        checks = checked(arguments)
        spec, paths = workload_spec(checks.arguments, checks.problems)
        super().__init__(resource_name, shown(checks.arguments, paths), opts)
        self._register(resource_name, checks.arguments, spec, checks.problems, paths.naming, {})
        self.register_outputs({"name": self.name, "namespace": self.namespace})

    @property
    def namespace(self) -> pulumi.Output[str]:
        """The object's namespace, from the object itself."""
        return of_metadata(self.resource, "namespace")
