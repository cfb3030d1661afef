"""The base of GPUPool, WorkloadProfile and TensorFusionWorkload: one custom resource, judged by its model (SPEC §4).

A preview without the CRDs validates nothing on the server, so the model is the only check in a pull request. What is known
is judged before anything is sent; Outputs wait for the judgement of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
import pulumi_kubernetes as k8s
from pydantic import BaseModel

from tensorfusion_iac.api.names import API_VERSION, GROUP, VERSION
from tensorfusion_iac.api.problem import Naming, Problem
from tensorfusion_iac.components.component import Component, of_metadata, root_urn
from tensorfusion_iac.components.inputs import is_deferred, is_known, replace_deferred, when_known, without_deferred
from tensorfusion_iac.components.object_metadata import object_metadata
from tensorfusion_iac.components.secret import Path, secret_paths, without_secrets
from tensorfusion_iac.components.takeover import refuse_takeover
from tensorfusion_iac.components.validated import verdict_on
from tensorfusion_iac.kube.resource import Resource


class TensorFusionResource(Component):
    """A component of one custom resource. `resource` is the child (None only where problems are being collected)."""

    resource: pulumi.CustomResource | None
    model: Any
    """The typed object, if the program says all of it; else None."""

    MODEL: ClassVar[type[BaseModel]]

    def _register(
        self,
        resource_name: str,
        arguments: Mapping[str, Any],
        spec: dict[str, Any],
        problems: list[Problem],
        naming: Naming,
        annotations: Mapping[str, Any],
    ) -> None:
        """Judge the spec, and register the child if it holds. `arguments` give the metadata."""
        kind = self.MODEL.__name__
        self.resource, self.model = None, None
        metadata = object_metadata(arguments, resource_name, annotations, problems)
        known, missing = without_deferred(spec)
        found, warnings = verdict_on(kind, known, missing)
        said = {naming(problem.field) for problem in problems}
        problems += [problem for problem in found if naming(problem.field) not in said]
        self._warn(warnings, naming)
        if problems:
            self._refuse(problems, naming)
            return
        if missing:
            late = {"spec": spec, "secret": secret_paths(spec), "first": self._registered()}
            checked = when_known(late, self._checker(naming, warnings))
            spec = replace_deferred(spec, lambda leaf: pulumi.Output.all(checked, leaf).apply(lambda both: both[1]))
        elif not is_deferred(metadata) and is_known(metadata.get("annotations")) and isinstance(metadata.get("name"), str):
            self.model = self.MODEL.model_validate({"metadata": without_deferred(metadata)[0], "spec": spec})
        self._named = metadata.get("name") if not is_deferred(metadata) else None
        self.resource = k8s.apiextensions.CustomResource(
            resource_name,
            api_version=API_VERSION,
            kind=kind,
            metadata=metadata,
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                aliases=[root_urn(f"kubernetes:{API_VERSION}:{kind}", resource_name)],
                delete_before_replace=True,
                hooks=refuse_takeover(self, _resource_of(self.MODEL)),
            ),
        )

    def _checker(self, naming: Naming, told: Sequence[Problem]) -> Any:
        def check(late: Mapping[str, Any]) -> None:
            problems, warnings = verdict_on(self.MODEL.__name__, late["spec"])
            secret: frozenset[Path] = late["secret"]

            def is_open(field: str) -> bool:
                return not any(_related(field, ".".join(("spec", *path))) for path in secret)

            new = [warning for warning in warnings if warning not in told]
            self._report_late(without_secrets(problems, secret, is_open), without_secrets(new, secret, is_open), naming)

        return check

    @property
    def name(self) -> pulumi.Output[str]:
        """The object's name, from the object itself."""
        return of_metadata(self.resource, "name")

    @property
    def reference(self) -> pulumi.Input[str]:
        """The object's name as others refer to it: text if the program says it, so that it can be judged; else the Output."""
        named = getattr(self, "_named", None)
        return named if isinstance(named, str) else self.name


def _resource_of(model: Any) -> Resource:
    return Resource(GROUP, VERSION, model.KIND.plural, model.KIND.kind)


def _related(field: str, path: str) -> bool:
    """Whether one is the other, or inside it."""
    return field.startswith(path) or path.startswith(field)
