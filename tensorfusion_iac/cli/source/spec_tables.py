"""Which argument of a component says which field of a spec: the components' own tables, without pulumi, which they import.

A test compares each with the component's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Path = tuple[str, ...]

_JOB = ("jobTemplate", "spec")
_JOB_FIELDS: Mapping[str, Path] = {
    "parallelism": ("parallelism",),
    "completions": ("completions",),
    "completion_mode": ("completionMode",),
    "backoff_limit": ("backoffLimit",),
    "active_deadline_seconds": ("activeDeadlineSeconds",),
    "ttl_seconds_after_finished": ("ttlSecondsAfterFinished",),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload component: its class, where the pod template is, its arguments; whether it selects pods by label."""

    component: str
    template: Path
    fields: Mapping[str, Path] = field(default_factory=dict)
    selects: bool = False
    restart_policy: str | None = None


WORKLOADS: Mapping[tuple[str, str], Workload] = {
    ("apps/v1", "Deployment"): Workload(
        "AnnotatedDeployment",
        ("template",),
        {
            "replicas": ("replicas",),
            "strategy": ("strategy",),
            "selector": ("selector",),
            "min_ready_seconds": ("minReadySeconds",),
            "progress_deadline_seconds": ("progressDeadlineSeconds",),
            "revision_history_limit": ("revisionHistoryLimit",),
            "paused": ("paused",),
        },
        selects=True,
    ),
    ("apps/v1", "StatefulSet"): Workload(
        "AnnotatedStatefulSet",
        ("template",),
        {
            "replicas": ("replicas",),
            "strategy": ("updateStrategy",),
            "selector": ("selector",),
            "service_name": ("serviceName",),
            "volume_claim_templates": ("volumeClaimTemplates",),
            "pod_management_policy": ("podManagementPolicy",),
            "min_ready_seconds": ("minReadySeconds",),
            "revision_history_limit": ("revisionHistoryLimit",),
        },
        selects=True,
    ),
    ("batch/v1", "Job"): Workload(
        "AnnotatedJob", ("template",), {**_JOB_FIELDS, "suspend": ("suspend",)}, restart_policy="Never"
    ),
    ("batch/v1", "CronJob"): Workload(
        "AnnotatedCronJob",
        (*_JOB, "template"),
        {
            **{argument: (*_JOB, *path) for argument, path in _JOB_FIELDS.items()},
            "schedule": ("schedule",),
            "time_zone": ("timeZone",),
            "concurrency_policy": ("concurrencyPolicy",),
            "suspend": ("suspend",),
            "starting_deadline_seconds": ("startingDeadlineSeconds",),
            "successful_jobs_history_limit": ("successfulJobsHistoryLimit",),
            "failed_jobs_history_limit": ("failedJobsHistoryLimit",),
        },
        restart_policy="Never",
    ),
}

TRANSFORMED: Mapping[tuple[str, str], str] = {
    ("apps/v1", "DaemonSet"): "k8s.apps.v1.DaemonSet",
    ("apps/v1", "ReplicaSet"): "k8s.apps.v1.ReplicaSet",
    ("v1", "ReplicationController"): "k8s.core.v1.ReplicationController",
    ("v1", "Pod"): "k8s.core.v1.Pod",
}
"""Workload kinds without a component: the plain resource, with `tfi.annotate` as its transformation."""

PROFILE: Mapping[str, Path] = {
    "gpupool": ("poolName",),
    "replicas": ("replicas",),
    "auto_set_resources": ("autoScalingConfig", "autoSetResources"),
    "cron_scaling_rules": ("autoScalingConfig", "cronScalingRules"),
    "external_scaler": ("autoScalingConfig", "externalScaler"),
    "gang_scheduling": ("gangScheduling",),
    "worker_pod_template": ("workerPodTemplate",),
    "node_affinity": ("nodeAffinity",),
}

POOL: Mapping[str, Path] = {
    "default_using_local_gpu": ("defaultUsingLocalGPU",),
    "node_selector": ("nodeManagerConfig", "nodeSelector"),
    "namespace_selector": ("namespaceSelector",),
    "provisioning_mode": ("nodeManagerConfig", "provisioningMode"),
    "default_vendor": ("nodeManagerConfig", "defaultVendor"),
    "default_isolation_mode": ("nodeManagerConfig", "defaultIsolationMode"),
    "default_qos": ("qosConfig", "defaultQoS"),
    "tflops_oversell_ratio": ("capacityConfig", "oversubscription", "tflopsOversellRatio"),
    "vram_expand_to_host_mem": ("capacityConfig", "oversubscription", "vramExpandToHostMem"),
    "vram_expand_to_host_disk": ("capacityConfig", "oversubscription", "vramExpandToHostDisk"),
    "min_resources": ("capacityConfig", "minResources"),
    "max_resources": ("capacityConfig", "maxResources"),
    "warm_resources": ("capacityConfig", "warmResources"),
    "placement_mode": ("placement", "mode"),
    "worker_image": ("componentConfig", "worker", "image"),
    "client_image": ("componentConfig", "client", "image"),
    "runtime_class_name": ("componentConfig", "client", "runtimeClassName"),
    "tolerations": ("componentConfig", "client", "tolerations"),
    "operator_endpoint": ("componentConfig", "client", "operatorEndpoint"),
    "qos_definitions": ("qosConfig", "definitions"),
    "qos_pricing": ("qosConfig", "pricing"),
    "node_provisioner": ("nodeManagerConfig", "nodeProvisioner"),
    "node_compaction": ("nodeManagerConfig", "nodeCompaction"),
    "rolling_update_policy": ("nodeManagerConfig", "rollingUpdatePolicy"),
}
