"""`AnnotatedJob`: a Job whose pods ask for vGPUs (API.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.batch.v1 import JobSpecArgs, JobSpecArgsDict

from tensorfusion_iac.components.annotated import AnnotatedWorkload, WorkloadArguments
from tensorfusion_iac.components.manifest import Manifest
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Path, Shape


class JobFields(WorkloadArguments, total=False):
    """The fields of a Job that have an argument of their own, also in a CronJob."""

    parallelism: pulumi.Input[int]
    completions: pulumi.Input[int]
    completion_mode: pulumi.Input[str]
    backoff_limit: pulumi.Input[int]
    active_deadline_seconds: pulumi.Input[int]
    ttl_seconds_after_finished: pulumi.Input[int]


class JobArguments(JobFields, total=False):
    """Arguments of AnnotatedJob. `spec` is for whatever has no argument of its own."""

    suspend: pulumi.Input[bool]
    spec: JobSpecArgs | JobSpecArgsDict | Json


JOB_FIELDS: Mapping[str, Path] = {
    "parallelism": ("parallelism",),
    "completions": ("completions",),
    "completion_mode": ("completionMode",),
    "backoff_limit": ("backoffLimit",),
    "active_deadline_seconds": ("activeDeadlineSeconds",),
    "ttl_seconds_after_finished": ("ttlSecondsAfterFinished",),
}


class AnnotatedJob(AnnotatedWorkload):
    """A Job whose pods ask for vGPUs.

    Its name is made by pulumi unless `metadata` says one, so that an edit, which replaces a Job, starts the new one before it
    removes the old. `up` does not wait for it to complete unless `wait=True`.
    """

    SHAPE = Shape(
        kind="Job",
        api_version="batch/v1",
        spec_args=JobSpecArgs,
        template=("template",),
        pods=("parallelism",),
        spec_fields={**JOB_FIELDS, "suspend": ("suspend",)},
        required={},
        autonamed=True,
        waits=False,
        restart_policy="Never",
    )
    ARGUMENTS = tuple(JobArguments.__annotations__)

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[JobArguments]
    ) -> None:
        super().__init__(resource_name, arguments, opts)

    @classmethod
    def from_manifest(
        cls,
        resource_name: str,
        manifest: Manifest,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **arguments: Unpack[JobArguments],
    ) -> Self:
        """The Job of a manifest (a path, text or a mapping), with `arguments` over what it says; it keeps its name."""
        return cls(resource_name, opts=opts, **cls._read(manifest, arguments))

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        return k8s.batch.v1.Job(name, metadata=metadata, spec=spec, opts=opts)
