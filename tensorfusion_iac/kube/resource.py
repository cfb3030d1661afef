"""Where a kind of object lives in the Kubernetes API: group, version, plural and kind, and the URL paths that follow.

The client takes these values rather than strings, so that a path is put together in one place. Below are the kinds that
more than one program uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from tensorfusion_iac.api import names


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object. `group` is empty for the core group; `kind` and `api_version` are what its objects carry."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection (no name), an object, or its subresource; no namespace: cluster scope or all.

        No name leads elsewhere: each is quoted. Raises ValueError for `.` and `..`, which no quotes would keep.
        """
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
            if subresource:
                parts.append(subresource)
        if not {".", ".."}.isdisjoint(parts):
            raise ValueError(f"no object is called . or ..: {parts}")
        return "/".join([quote(part, safe="") for part in parts])


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Resource("", "v1", "secrets", "Secret")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
EVENTS = Resource("", "v1", "events", "Event")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
GPU_POOLS = Resource(names.GROUP, names.VERSION, "gpupools", "GPUPool")
WORKLOAD_PROFILES = Resource(names.GROUP, names.VERSION, "workloadprofiles", "WorkloadProfile")
TENSOR_FUSION_WORKLOADS = Resource(names.GROUP, names.VERSION, "tensorfusionworkloads", "TensorFusionWorkload")
GPU_RESOURCE_QUOTAS = Resource(names.GROUP, names.VERSION, "gpuresourcequotas", "GPUResourceQuota")
GPUS = Resource(names.GROUP, names.VERSION, "gpus", "GPU")
GPU_NODES = Resource(names.GROUP, names.VERSION, "gpunodes", "GPUNode")
