"""`GPUPool`: a set of GPU nodes, how they are shared, and who may use them (API.md; SPEC §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack

import pulumi

from tensorfusion_iac.api import resources
from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.components.component import Checks
from tensorfusion_iac.components.custom_resource import TensorFusionResource
from tensorfusion_iac.components.inputs import is_deferred, when_known
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Path
from tensorfusion_iac.components.spec_paths import SpecPaths

Amounts = Mapping[str, pulumi.Input[int | str]]
NodeSelector = Mapping[str, pulumi.Input[str] | Sequence[str]] | Sequence[Json] | Json


class GPUPoolArguments(TypedDict, total=False):
    """Arguments of GPUPool. `spec` is for whatever has no argument of its own: a mapping, or `api.GPUPoolSpec`."""

    default_using_local_gpu: Required[pulumi.Input[bool]]
    default: pulumi.Input[bool]
    node_selector: pulumi.Input[NodeSelector]
    namespace_selector: pulumi.Input[Mapping[str, pulumi.Input[str]] | Json]
    provisioning_mode: pulumi.Input[Literal["AutoSelect", "Provisioned", "Karpenter"]]
    default_vendor: pulumi.Input[Vendor | str]
    default_isolation_mode: pulumi.Input[Isolation | Literal["shared", "soft", "hard", "partitioned"]]
    default_qos: pulumi.Input[QoS | Literal["low", "medium", "high", "critical"]]
    tflops_oversell_ratio: pulumi.Input[int]
    vram_expand_to_host_mem: pulumi.Input[int]
    vram_expand_to_host_disk: pulumi.Input[int]
    min_resources: pulumi.Input[Amounts]
    max_resources: pulumi.Input[Amounts]
    warm_resources: pulumi.Input[Amounts]
    placement_mode: pulumi.Input[Literal["CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad"]]
    worker_image: pulumi.Input[str]
    client_image: pulumi.Input[str]
    runtime_class_name: pulumi.Input[str]
    tolerations: pulumi.Input[Sequence[Json]]
    operator_endpoint: pulumi.Input[str]
    qos_definitions: pulumi.Input[Sequence[Json]]
    qos_pricing: pulumi.Input[Sequence[Json]]
    node_provisioner: pulumi.Input[Json]
    node_compaction: pulumi.Input[Json]
    rolling_update_policy: pulumi.Input[Json]
    spec: resources.GPUPoolSpec | Json
    metadata: pulumi.Input[Json]
    labels: pulumi.Input[Mapping[str, pulumi.Input[str]]]
    annotations: pulumi.Input[Mapping[str, pulumi.Input[str]]]


PATHS: Mapping[str, Path] = {
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
"""Where each argument stands in the spec: the table of names that differ (API.md)."""


class GPUPool(TensorFusionResource):
    """A pool of GPU nodes. Whether its pods use GPUs of their own node must be said: nothing is remote by accident."""

    MODEL = resources.GPUPool
    model: resources.GPUPool | None

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[GPUPoolArguments]
    ) -> None:
        required = {"default_using_local_gpu": "True (GPUs of the pod's own node) or False (GPUs over the network)"}
        checks = Checks(arguments, GPUPoolArguments.__annotations__, required)
        checks.flag("default", "default_using_local_gpu")
        checks.mapping("metadata", "labels", "annotations")
        given = checks.arguments
        paths = SpecPaths(PATHS, given)
        readers = {"node_selector": node_selector, "namespace_selector": label_selector}
        spec = paths.spec(resources.GPUPoolSpec, readers, checks.problems)
        super().__init__(resource_name, paths.shown("default"), opts)
        default = given.get("default", False)
        annotations = {} if default is False else {DEFAULT_POOL_ANNOTATION: _text(default)}
        self._register(resource_name, given, spec, checks.problems, paths.naming, annotations)
        self.register_outputs({"name": self.name})


def _text(flag: Any) -> Any:
    return when_known(flag, lambda known: "true" if known else "false") if is_deferred(flag) else "true"


def node_selector(value: Any, problems: list[Problem]) -> Any:
    """A node selector in manifest form: from a plain map of labels, from a list of terms, or from the form itself."""
    if is_deferred(value):
        return when_known(value, lambda known: node_selector(known, []))
    if isinstance(value, (list, tuple)):
        return {"nodeSelectorTerms": list(value)}
    if not isinstance(value, Mapping):
        problems.append(Problem("node_selector", quote(value), "a mapping of labels, or a list of terms"))
        return {}
    if "nodeSelectorTerms" in value or "node_selector_terms" in value:
        return value
    rules = [
        {"key": label, "operator": "In", "values": list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]}
        for label, wanted in value.items()
        if _is_label("node_selector", label, wanted, problems)
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": rules}]}


def label_selector(value: Any, problems: list[Problem]) -> Any:
    """A label selector in manifest form: from a plain map of labels, or from the form itself."""
    if is_deferred(value):
        return when_known(value, lambda known: label_selector(known, []))
    if not isinstance(value, Mapping):
        problems.append(Problem("namespace_selector", quote(value), "a mapping of labels, or a label selector"))
        return {}
    if any(key in value for key in ("matchLabels", "match_labels", "matchExpressions", "match_expressions")):
        return value
    labels = {label: wanted for label, wanted in value.items() if _is_label("namespace_selector", label, wanted, problems)}
    return {"matchLabels": labels}


def _is_label(argument: str, label: str, wanted: Any, problems: list[Problem]) -> bool:
    texts = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    if all(isinstance(text, str) or is_deferred(text) for text in texts):
        return True
    problems.append(Problem(f"{argument}.{label}", quote(wanted), 'text, such as "true"'))
    return False
