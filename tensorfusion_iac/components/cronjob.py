"""`AnnotatedCronJob`: a CronJob whose pods ask for vGPUs (API.md)."""

from __future__ import annotations

from typing import Any, Self, Unpack

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.batch.v1 import CronJobSpecArgs, CronJobSpecArgsDict

from tensorfusion_iac.components.annotated import AnnotatedWorkload
from tensorfusion_iac.components.job import JOB_FIELDS, JobFields
from tensorfusion_iac.components.manifest import Manifest
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Shape

_JOB = ("jobTemplate", "spec")


class CronJobArguments(JobFields, total=False):
    """Arguments of AnnotatedCronJob. `schedule` must be given; `spec` is for whatever has no argument of its own."""

    schedule: pulumi.Input[str]
    time_zone: pulumi.Input[str]
    concurrency_policy: pulumi.Input[str]
    suspend: pulumi.Input[bool]
    starting_deadline_seconds: pulumi.Input[int]
    successful_jobs_history_limit: pulumi.Input[int]
    failed_jobs_history_limit: pulumi.Input[int]
    spec: CronJobSpecArgs | CronJobSpecArgsDict | Json


class AnnotatedCronJob(AnnotatedWorkload):
    """A CronJob whose pods ask for vGPUs. An edit holds for the jobs that start after it."""

    SHAPE = Shape(
        kind="CronJob",
        api_version="batch/v1",
        spec_args=CronJobSpecArgs,
        template=(*_JOB, "template"),
        pods=(*_JOB, "parallelism"),
        spec_fields={
            **{argument: (*_JOB, *path) for argument, path in JOB_FIELDS.items()},
            "schedule": ("schedule",),
            "time_zone": ("timeZone",),
            "concurrency_policy": ("concurrencyPolicy",),
            "suspend": ("suspend",),
            "starting_deadline_seconds": ("startingDeadlineSeconds",),
            "successful_jobs_history_limit": ("successfulJobsHistoryLimit",),
            "failed_jobs_history_limit": ("failedJobsHistoryLimit",),
        },
        required={"schedule": "five cron fields, such as 0 3 * * *"},
        can_wait=False,
        restart_policy="Never",
    )
    ARGUMENTS = tuple(CronJobArguments.__annotations__)

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[CronJobArguments]
    ) -> None:
        super().__init__(resource_name, arguments, opts)

    @classmethod
    def from_manifest(
        cls,
        resource_name: str,
        manifest: Manifest,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **arguments: Unpack[CronJobArguments],
    ) -> Self:
        """The CronJob of a manifest (a path, text or a mapping), with `arguments` over what it says."""
        return cls(resource_name, opts=opts, **cls._read(manifest, arguments))

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        return k8s.batch.v1.CronJob(name, metadata=metadata, spec=spec, opts=opts)
