"""The table of the user's annotations: one row each, with reader, writer, default and rule (SPEC §2).

It is the only place where a user annotation is listed. The parser, the Python arguments, the pydantic model and the
reference page are all made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api import quantity, values
from tensorfusion_iac.api.levels import AutoscaleTarget, Isolation, QoS


@dataclass(frozen=True, slots=True)
class Field:
    """One annotation. `parse` raises Fault; `write(parse(text))` reads back to the same value.

    `takes`, `default` and `rule` are the reference page's words. `profile` is the field of WorkloadProfile's spec that
    means the same, if there is one.
    """

    key: str
    parse: Callable[[str], Any]
    write: Callable[[Any], str]
    takes: str
    default: str
    rule: str = ""
    profile: str | None = None

    @property
    def argument(self) -> str:
        """The Python argument: the key in snake_case (API.md)."""
        return self.key.replace("-", "_")


_PER_GPU = "per vGPU worker per GPU device"

FIELDS: tuple[Field, ...] = (
    Field("tflops-request", quantity.parse_tflops, quantity.format_decimal, "FP16 TFLOPS, > 0, below 100,000",
          "the limit", f"{_PER_GPU}; not together with compute-percent-request", "resources.requests.tflops"),
    Field("tflops-limit", quantity.parse_tflops, quantity.format_decimal, "FP16 TFLOPS, > 0, below 100,000",
          "the whole card", "at least the request; not together with compute-percent-limit", "resources.limits.tflops"),
    Field("vram-request", quantity.parse_vram, quantity.format_bytes, "bytes, > 0, below 10Ti",
          "the limit", f"{_PER_GPU}; a bare number below 1Mi is refused", "resources.requests.vram"),
    Field("vram-limit", quantity.parse_vram, quantity.format_bytes, "bytes, > 0, below 10Ti",
          "the request", "at least the request", "resources.limits.vram"),
    Field("compute-percent-request", quantity.parse_percent, quantity.format_decimal, "0..100, percent of the card",
          "-", "not together with tflops-request; 0 asks for nothing", "resources.requests.compute"),
    Field("compute-percent-limit", quantity.parse_percent_limit, quantity.format_decimal, "above 0, up to 100",
          "-", "not together with tflops-limit", "resources.limits.compute"),
    Field("inject-container", values.parse_containers, values.write_list, "a comma list of container names",
          "containers with GPUs in container-gpu-count, else the only container", "each must exist"),
    Field("qos", values.enum_parser(QoS), str, "low, medium, high, critical",
          "pool's qosConfig.defaultQoS, else medium", "sets the priority class unless the pod names one", "qos"),
    Field("is-local-gpu", values.parse_bool, values.write_bool, "true, false",
          "pool's defaultUsingLocalGPU, else false", "GPUs of the pod's own node; false: remote workers", "isLocalGPU"),
    Field("gpu-count", values.int_parser(1, values.MAX_GPUS), str, "1..128",
          "sum of container-gpu-count, else the profile's, else the number of gpu-indices, else native GPU requests, else 1",
          "all GPUs of a worker are distinct and on one node", "gpuCount"),
    Field("gpupool", values.parse_label_name, str, "the name of a GPUPool", "the default pool", "must exist", "poolName"),
    Field("vendor", values.parse_vendor_name, str, "NVIDIA, AMD, Ascend, Intel, Hygon, MetaX, MThreads, Cambricon, "
          "Enflame, Qualcomm, Cerebras, AWSNeuron, Google (any case)",
          "pool's defaultVendor, else the pool's only vendor, else NVIDIA", "MooreThreads is an alias of MThreads", "vendor"),
    Field("gpu-model", values.parse_model, str, "a model or a family, any case", "any",
          "a model that no node has yet is allowed: the pod waits", "gpuModel"),
    Field("dedicated-gpu", values.parse_bool, values.write_bool, "true, false", "false",
          "needs gpu-model; takes idle whole cards; replaces amounts of lower sources", "dedicatedGPU"),
    Field("isolation", values.enum_parser(Isolation), str, "shared, soft, hard, partitioned",
          "pool's defaultIsolationMode, else soft", "how workers on one card are kept apart", "isolation"),
    Field("gpu-indices", values.parse_indices, values.write_list, "a comma list of device indices", "any",
          "the devices that may be used, each once; at least gpu-count of them", "gpuIndices"),
    Field("container-gpu-count", values.parse_container_counts, values.write_container_counts,
          "a JSON object, container -> number of GPUs", "injected containers share the same GPUs",
          "local GPUs only; the sum is gpu-count"),
    Field("workload", values.parse_label_name, str, "the name of a TensorFusionWorkload", "the top owner's name, else the pod's",
          "pods that name one workload share its vGPU workers (remote) or are grouped (local)"),
    Field("workload-profile", values.parse_name, str, "the name of a WorkloadProfile of the same namespace", "-", "must exist"),
    Field("enabled-replicas", values.int_parser(0, values.MAX_INT32), str, "0..2147483647", "all",
          "grey release: how many replicas run with TensorFusion"),
    Field("autoscale", values.parse_bool, values.write_bool, "true, false", "false",
          "amounts follow the history of use", "autoScalingConfig.autoSetResources.enable"),
    Field("autoscale-target", values.enum_parser(AutoscaleTarget), str, "compute, vram, all", "all",
          "which amounts; only with autoscale", "autoScalingConfig.autoSetResources.targetResource"),
    Field("standalone-worker-mode", values.parse_bool, values.write_bool, "true, false", "false",
          "only with local GPUs; the GPUs go to a sidecar, and the containers see none", "standaloneWorkerMode"),
    Field("disable-features", values.parse_features, values.write_list, "a comma list of gpu-limiter, mem-manager, gpu-opt",
          "none", "no compute limit; no memory limit; passed to workers", "disableFeatures"),
    Field("partition-template", values.parse_template, str, "a MIG profile name such as 1g.10gb", "least waste",
          "only with isolation: partitioned", "partitionTemplateId"),
    Field("eviction-protection", values.parse_duration, values.write_duration, "a duration such as 30m", "none",
          "shields from preemption for that long after the start"),
    Field("gang-min-members", values.parse_gang_members, str, "0, or from 2", "none",
          "how many pods start together; 0 is none", "gangScheduling.minMembers"),
    Field("gang-timeout", values.parse_duration, values.write_duration, "a duration such as 5m", "none",
          "how long the group may wait; 0 is forever", "gangScheduling.timeout"),
)  # fmt: skip

BY_KEY = {field.key: field for field in FIELDS}
AMOUNTS = (
    "tflops-request", "tflops-limit", "vram-request", "vram-limit", "compute-percent-request", "compute-percent-limit",
)  # fmt: skip
