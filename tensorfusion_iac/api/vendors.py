"""The accelerator vendors of the format, and how each one's devices are shown to a container (SPEC §2 `vendor`, §7).

For each vendor: the environment variables that select devices, who reads them and in what form, and the whole-device
resources of its Kubernetes device plugin. Admission reads the native requests, the scheduler writes `visible-devices`,
the agent turns GPU ids into what the variable expects. Every row names the document it was taken from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType


class Vendor(StrEnum):
    """Who makes the accelerator; the value is the format's spelling (SPEC §2)."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    ASCEND = "Ascend"
    INTEL = "Intel"
    HYGON = "Hygon"
    METAX = "MetaX"
    MTHREADS = "MThreads"
    CAMBRICON = "Cambricon"
    ENFLAME = "Enflame"
    QUALCOMM = "Qualcomm"
    CEREBRAS = "Cerebras"
    AWS_NEURON = "AWSNeuron"
    GOOGLE = "Google"


ALIASES: Mapping[str, Vendor] = MappingProxyType({"moorethreads": Vendor.MTHREADS})
"""Other spellings, in lower case. The public operator writes MooreThreads."""


class DeviceForm(StrEnum):
    """How a variable names a device."""

    UUID = "uuid"
    """The id that the driver reports; index also works, but is not stable over a restart of the node."""
    INDEX = "index"
    """The driver's index on the node, from 0."""
    CORE = "core"
    """An index of a core inside the device, counted over all devices of the node."""


class Reader(StrEnum):
    """Who reads a variable, and so what it can do."""

    RUNTIME = "runtime"
    """The container runtime (or its hook): it puts the named devices into the container."""
    LIBRARY = "library"
    """The vendor's library in the process: it hides devices that are in the container already, and confines nothing."""


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """One environment variable that takes a comma list of devices. `none` is the documented value for no device."""

    variable: str
    form: DeviceForm
    reader: Reader
    none: str | None
    source: str


@dataclass(frozen=True, slots=True)
class VendorDevices:
    """A vendor's variables, the one to set first, and the Kubernetes resources of which each unit is a whole device."""

    visible: tuple[VisibleDevices, ...]
    resources: tuple[str, ...]
    resource_source: str


def parse_vendor(text: str) -> Vendor | None:
    """Read a vendor in any case, MooreThreads included; None if it is not one of the format's."""
    return _by_spelling().get(text.casefold())


def vendor_of_resource(resource: str) -> Vendor | None:
    """Tell whose device a native Kubernetes resource such as `nvidia.com/gpu` is; None if not a whole known device."""
    return _by_resource().get(resource)


def visible_devices(vendor: Vendor) -> VisibleDevices | None:
    """Give the variable that the vendor's container runtime reads, else its library's; None if the vendor has none."""
    rows = DEVICES[vendor].visible
    return rows[0] if rows else None


@cache
def _by_spelling() -> Mapping[str, Vendor]:
    return MappingProxyType({vendor.value.casefold(): vendor for vendor in Vendor} | dict(ALIASES))


@cache
def _by_resource() -> Mapping[str, Vendor]:
    return MappingProxyType({name: vendor for vendor, row in DEVICES.items() for name in row.resources})


DEVICES: Mapping[Vendor, VendorDevices] = MappingProxyType({
    Vendor.NVIDIA: VendorDevices(
        (
            VisibleDevices("NVIDIA_VISIBLE_DEVICES", DeviceForm.UUID, Reader.RUNTIME, "void",
                           "NVIDIA Container Toolkit documentation, Specialized Configurations with Docker"),
            VisibleDevices("CUDA_VISIBLE_DEVICES", DeviceForm.UUID, Reader.LIBRARY, "",
                           "CUDA C++ Programming Guide, CUDA Environment Variables"),
        ),
        ("nvidia.com/gpu",), "NVIDIA/k8s-device-plugin, README",
    ),
    Vendor.AMD: VendorDevices(
        (
            # Its UUID is the bare hexadecimal of amd-smi, not the `GPU-...` of ROCr: an index is safe in both.
            VisibleDevices("AMD_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, "none",
                           "ROCm/container-toolkit, docs/container-runtime (running-workloads, docker-compose)"),
            VisibleDevices("ROCR_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "ROCm documentation, GPU isolation techniques"),
        ),
        ("amd.com/gpu",), "ROCm/k8s-device-plugin, README",
    ),
    Vendor.ASCEND: VendorDevices(
        (
            VisibleDevices("ASCEND_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, "void",
                           "MindCluster documentation, Ascend Docker Runtime parameters"),
            VisibleDevices("ASCEND_RT_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "CANN documentation, Environment variables"),
        ),
        ("huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend310", "huawei.com/npu"),
        "MindCluster documentation, Ascend Device Plugin; Volcano user guide, how to use vNPU",
    ),
    Vendor.INTEL: VendorDevices(
        (
            VisibleDevices("HABANA_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, None,
                           "HabanaAI/habana-container-runtime, README (Gaudi)"),
            VisibleDevices("ZE_AFFINITY_MASK", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "oneAPI Level Zero specification, Environment Variables (Data Center GPU Max)"),
        ),
        ("habana.ai/gaudi", "gpu.intel.com/i915", "gpu.intel.com/xe"),
        "Intel Gaudi documentation, Kubernetes installation; intel/intel-device-plugins-for-kubernetes, GPU plugin",
    ),
    Vendor.HYGON: VendorDevices(
        (
            VisibleDevices("HIP_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "Hygon DTK is HIP compatible: ROCm documentation, GPU isolation techniques"),
        ),
        ("hygon.com/dcu", "hygon.com/dcunum"), "Hygon DCU device plugin (dcu); HAMi chart values (dcunum)",
    ),
    Vendor.METAX: VendorDevices(
        (
            VisibleDevices("MACA_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "MetaX MACA environment; FlagCX documentation, environment variables"),
        ),
        ("metax-tech.com/gpu",), "HAMi chart values, device-configmap",
    ),
    Vendor.MTHREADS: VendorDevices(
        (
            VisibleDevices("MTHREADS_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, "none",
                           "MT Container Toolkit documentation; torch_musa FAQ"),
            VisibleDevices("MUSA_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "MUSA SDK documentation, environment variables"),
        ),
        ("mthreads.com/gpu", "mthreads.com/vgpu"),
        "MT Cloud Native Toolkit documentation (gpu); HAMi chart values (vgpu)",
    ),
    Vendor.CAMBRICON: VendorDevices(
        (
            VisibleDevices("CAMBRICON_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, None,
                           "Cambricon/cambricon-k8s-device-plugin, pkg/mlu"),
            VisibleDevices("MLU_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "Cambricon CNRT documentation, environment variables"),
        ),
        ("cambricon.com/mlu",), "Cambricon/cambricon-k8s-device-plugin, README",
    ),
    Vendor.ENFLAME: VendorDevices(
        (
            VisibleDevices("ENFLAME_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.RUNTIME, "none",
                           "Enflame container toolkit and GCU device plugin documentation"),
            VisibleDevices("TOPS_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "Enflame TopsRider documentation; vLLM GCU platform plugin"),
        ),
        ("enflame.com/gcu",), "HAMi chart values, device-configmap",
    ),
    Vendor.QUALCOMM: VendorDevices(
        (
            VisibleDevices("QAIC_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "quic/efficient-transformers documentation, fine-tuning"),
        ),
        ("qualcomm.com/qaic",), "quic/cloud-ai-sdk documentation, Kubernetes device plugin",
    ),
    # A wafer is reached over the network through its own appliance software: nothing to inject, nothing to request.
    Vendor.CEREBRAS: VendorDevices((), (), "Cerebras documentation, Wafer-Scale Cluster"),
    Vendor.AWS_NEURON: VendorDevices(
        (
            VisibleDevices("NEURON_RT_VISIBLE_CORES", DeviceForm.CORE, Reader.LIBRARY, None,
                           "AWS Neuron documentation, NeuronX Runtime configuration"),
        ),
        ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice"),
        "AWS Neuron documentation, Neuron device plugin (neuroncore is part of a device)",
    ),
    Vendor.GOOGLE: VendorDevices(
        (
            VisibleDevices("TPU_VISIBLE_DEVICES", DeviceForm.INDEX, Reader.LIBRARY, None,
                           "pytorch/xla, PJRT runtime documentation; newer libtpu also reads TPU_VISIBLE_CHIPS"),
        ),
        ("google.com/tpu",), "Google Kubernetes Engine documentation, TPUs in GKE",
    ),
})  # fmt: skip
