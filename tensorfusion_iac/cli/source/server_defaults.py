"""What an API server writes into an object that it gives out: its defaults, and what it makes of a Job's pods, taken out again.

`kubectl get -o yaml` shows values that nobody wrote beside those that somebody did; a program that repeats them hides what is
meant. Only objects that come from a server are touched, and only what it would fill in itself (Kubernetes' `SetDefaults_*`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
EACH = "*"
"""A step of a path: every item of the list, or every value of the mapping, that stands there."""

_ROLLING = {"type": "RollingUpdate"}
_SPECS: Mapping[str, Mapping[Path, Any]] = {
    "Deployment": {
        ("progressDeadlineSeconds",): 600, ("revisionHistoryLimit",): 10,
        ("strategy",): {**_ROLLING, "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    },
    "StatefulSet": {
        ("revisionHistoryLimit",): 10, ("podManagementPolicy",): "OrderedReady",
        ("updateStrategy", "rollingUpdate", "partition"): 0, ("updateStrategy", "rollingUpdate", "maxUnavailable"): 1,
        ("updateStrategy", "rollingUpdate"): {}, ("updateStrategy",): _ROLLING,
        ("persistentVolumeClaimRetentionPolicy",): {"whenDeleted": "Retain", "whenScaled": "Retain"},
        ("volumeClaimTemplates", EACH, "apiVersion"): "v1", ("volumeClaimTemplates", EACH, "kind"): "PersistentVolumeClaim",
        ("volumeClaimTemplates", EACH, "spec", "volumeMode"): "Filesystem",
        ("volumeClaimTemplates", EACH, "status"): {"phase": "Pending"},
    },
    "DaemonSet": {
        ("revisionHistoryLimit",): 10, ("updateStrategy",): {**_ROLLING, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    },
    "Job": {
        ("backoffLimit",): 6, ("completionMode",): "NonIndexed", ("suspend",): False, ("manualSelector",): False,
        ("podReplacementPolicy",): "TerminatingOrFailed",
    },
    "CronJob": {
        ("concurrencyPolicy",): "Allow", ("suspend",): False, ("successfulJobsHistoryLimit",): 3, ("failedJobsHistoryLimit",): 1,
        ("jobTemplate", "metadata"): {},
    },
}  # fmt: skip
_TEMPLATES: Mapping[str, Path] = {"CronJob": ("jobTemplate", "spec", "template", "spec"), "Pod": ()}
_TEMPLATE: Path = ("template", "spec")

_CONTAINERS = ("initContainers", "containers")
_HTTP = ("httpGet", "scheme")
_PROBES: Mapping[Path, Any] = {
    (probe, *path): value
    for probe in ("livenessProbe", "readinessProbe", "startupProbe")
    for path, value in {
        ("timeoutSeconds",): 1, ("periodSeconds",): 10, ("successThreshold",): 1, ("failureThreshold",): 3, _HTTP: "HTTP",
        ("grpc", "service"): "",
    }.items()
}  # fmt: skip
_CONTAINER: Mapping[Path, Any] = {
    ("terminationMessagePath",): "/dev/termination-log", ("terminationMessagePolicy",): "File", ("resources",): {},
    ("ports", EACH, "protocol"): "TCP", ("env", EACH, "valueFrom", "fieldRef", "apiVersion"): "v1",
    ("lifecycle", EACH, *_HTTP): "HTTP", **_PROBES,
}  # fmt: skip
_POD: Mapping[Path, Any] = {
    ("dnsPolicy",): "ClusterFirst", ("restartPolicy",): "Always", ("schedulerName",): "default-scheduler",
    ("terminationGracePeriodSeconds",): 30, ("securityContext",): {}, ("enableServiceLinks",): True,
    ("preemptionPolicy",): "PreemptLowerPriority",
    **{("volumes", EACH, source, "defaultMode"): 420 for source in ("configMap", "secret", "downwardAPI", "projected")},
    ("volumes", EACH, "hostPath", "type"): "",
    ("volumes", EACH, "projected", "sources", EACH, "serviceAccountToken", "expirationSeconds"): 3600,
    **{
        ("volumes", EACH, *inside, "items", EACH, "fieldRef", "apiVersion"): "v1"
        for inside in (("downwardAPI",), ("projected", "sources", EACH, "downwardAPI"))
    },
    **{
        (group, EACH, *path): value
        for group in _CONTAINERS for path, value in _CONTAINER.items()
    },
}  # fmt: skip
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


def is_from_a_server(metadata: Mapping[str, Any]) -> bool:
    """Whether a server has given the object out, rather than somebody written it."""
    return "uid" in metadata or "resourceVersion" in metadata


def drop_defaults(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> int:
    """Take out, in place, what the server writes by itself into a workload of this kind; how many values that were."""
    count = _drop(spec, _SPECS.get(kind, {}))
    if kind == "Job":
        count += _drop_counts(spec) + (0 if spec.get("manualSelector") else _drop_job_marks(metadata, spec))
    for pod in _at(spec, _TEMPLATES.get(kind, _TEMPLATE)):
        if isinstance(pod, dict):
            count += _drop(pod, _POD) + _remove(pod, "serviceAccount", pod.get("serviceAccountName"))
            count += sum(_drop_pull_policy(container) for group in _CONTAINERS for container in _at(pod, (group, EACH)))
    return count


def _drop(tree: dict[str, Any], defaults: Mapping[Path, Any]) -> int:
    return sum(_remove(place, key, default) for (*way, key), default in defaults.items() for place in _at(tree, tuple(way)))


def _drop_pull_policy(container: Any) -> int:
    return _remove(container, "imagePullPolicy", _pull_policy(str(container.get("image")))) if isinstance(container, dict) else 0


def _drop_counts(spec: dict[str, Any]) -> int:
    """One pod, one at a time; without `completions` the pods of a Job work on a queue, and `parallelism` has to stay."""
    if (spec.get("parallelism"), spec.get("completions")) == (1, 1):
        return _remove(spec, "parallelism", 1) + _remove(spec, "completions", 1)
    return _remove(spec, "parallelism", 1) if "completions" in spec else 0


def _pull_policy(image: str) -> str:
    """Kubernetes' rule: an image by digest or with a tag other than `latest` is pulled if it is not there."""
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"


def _drop_job_marks(metadata: dict[str, Any], spec: dict[str, Any]) -> int:
    """The selector and the labels by which the server ties a Job to its pods, and the pods' labels on the Job itself."""
    count = _remove(spec, "selector", spec.get("selector"))
    pods: Any = next(_at(spec, ("template", "metadata", "labels")), {})
    for labels in (pods, metadata.get("labels", {})):
        count += sum(_remove(labels, label, labels.get(label)) for label in _JOB_LABELS)
    return count + _remove(metadata, "labels", pods)


def _remove(place: Any, key: str, value: Any) -> int:
    """Take out the member if it is this value, and of its type: 1 if it was there."""
    if not isinstance(place, dict) or key not in place or type(place[key]) is not type(value) or place[key] != value:
        return 0
    del place[key]
    return 1


def _at(tree: Any, path: Path) -> Iterator[Any]:
    """What stands at the path, which may fork; nothing where it leads nowhere."""
    if not path:
        yield tree
        return
    head, *rest = path
    members = tree if isinstance(tree, dict) else dict(enumerate(tree)) if isinstance(tree, list) and head == EACH else {}
    for key, item in members.items():
        if head in (EACH, key):
            yield from _at(item, tuple(rest))
