"""`WorkloadProfile`: a named template of vGPU settings, for the pods of its namespace (API.md; SPEC §4)."""

from __future__ import annotations

from typing import Unpack

import pulumi

from tensorfusion_iac.api import resources
from tensorfusion_iac.components.component import of_metadata
from tensorfusion_iac.components.custom_resource import TensorFusionResource
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.workload_spec import WorkloadSpecArguments, checked, shown, workload_spec


class WorkloadProfile(TensorFusionResource):
    """What pods that name the profile ask for, unless they say otherwise themselves."""

    MODEL = resources.WorkloadProfile
    model: resources.WorkloadProfile | None
    pool: resources.GPUPool | None
    """The pool it names, if the program declares it."""

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[WorkloadSpecArguments]
    ) -> None:
        checks = checked(arguments)
        spec, paths = workload_spec(checks.arguments, checks.problems)
        super().__init__(resource_name, shown(checks.arguments, paths), opts)
        pool = checks.arguments.get("gpupool")
        self.pool = pool.model if isinstance(pool, GPUPool) else None
        self._register(resource_name, checks.arguments, spec, checks.problems, paths.naming, {})
        self.register_outputs({"name": self.name, "namespace": self.namespace})

    @property
    def namespace(self) -> pulumi.Output[str]:
        """The object's namespace, from the object itself."""
        return of_metadata(self.resource, "namespace")
