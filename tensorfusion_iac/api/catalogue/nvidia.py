"""NVIDIA data centre models. TFLOPS and prices are the public operator's if it has them, so that manifests carry over.

`CHART` is its ConfigMap gpu-public-gpu-info (prices are the average of a few cloud vendors, by its own comment);
where that differs from NVIDIA's datasheet, the note says by how much.
"""

from __future__ import annotations

from functools import partial

from tensorfusion_iac.api.catalogue import mig
from tensorfusion_iac.api.catalogue.model import GpuModel, gpu
from tensorfusion_iac.api.vendors import Vendor

CHART = "TensorFusion chart, gpu-public-gpu-info"
PROVIDER = "TensorFusion chart values, ProviderConfig hardwareMetadata"

_nvidia = partial(gpu, Vendor.NVIDIA)

MODELS: tuple[GpuModel, ...] = (
    # Pascal, Volta, Turing
    _nvidia("P100_PCIe_16G", "P100", "18.7", 16, "NVIDIA Tesla P100 PCIe datasheet",
            driver=("Tesla P100-PCIE-16GB",), note="No tensor cores: FP16 of the CUDA cores."),
    _nvidia("P100_SXM_16G", "P100", "21.2", 16, "NVIDIA Tesla P100 datasheet",
            driver=("Tesla P100-SXM2-16GB",), note="No tensor cores: FP16 of the CUDA cores."),
    _nvidia("V100_SXM_16G", "V100", "125", 16, CHART, usd="0.7", driver=("Tesla V100-SXM2-16GB",)),
    _nvidia("V100_SXM_32G", "V100", "125", 32, CHART, usd="0.7",
            driver=("Tesla V100-SXM2-32GB", "Tesla V100-SXM3-32GB")),
    _nvidia("V100_PCIe_16G", "V100", "125", 16, CHART, usd="0.7",
            driver=("Tesla V100-PCIE-16GB",), note="Datasheet: 112 for PCIe; the chart has one V100."),
    _nvidia("V100_PCIe_32G", "V100", "125", 32, CHART, usd="0.7",
            driver=("Tesla V100-PCIE-32GB",), note="Datasheet: 112 for PCIe; the chart has one V100."),
    _nvidia("V100S", "V100S", "130", 32, CHART, usd="0.8", driver=("Tesla V100S-PCIE-32GB",)),
    _nvidia("T4", "T4", "65", 16, CHART, usd="0.3", driver=("Tesla T4",)),
    # Ampere
    _nvidia("A2", "A2", "18", 16, "NVIDIA A2 datasheet", driver=("NVIDIA A2",)),
    _nvidia("A10", "A10", "125", 24, CHART, usd="0.7", driver=("NVIDIA A10",)),
    _nvidia("A10G", "A10G", "125", 24, CHART, usd="0.8", driver=("NVIDIA A10G",)),
    _nvidia("A16", "A16", "17.9", 16, "NVIDIA A16 datasheet",
            driver=("NVIDIA A16",), note="One of the four GPUs of the board, as the driver lists them."),
    _nvidia("A30", "A30", "165", 24, PROVIDER, usd="0.45", driver=("NVIDIA A30",), mig=mig.A30),
    _nvidia("A40", "A40", "149.7", 48, CHART, usd="0.4", driver=("NVIDIA A40", "NVIDIA A40-PCIE-48GB")),
    _nvidia("A100_PCIe_40G", "A100", "312", 40, CHART, usd="1.2", aliases=("A100_PCIe_40GB",),
            driver=("NVIDIA A100-PCIE-40GB", "NVIDIA A100 40GB PCIe"), mig=mig.A100_40G),
    _nvidia("A100_SXM_40G", "A100", "312", 40, CHART, usd="1.4",
            driver=("NVIDIA A100-SXM4-40GB",), mig=mig.A100_40G),
    _nvidia("A100_PCIe_80G", "A100", "312", 80, CHART, usd="1.64", aliases=("A100_PCIe_80GB",),
            driver=("NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-80GB"), mig=mig.GH100_80G),
    _nvidia("A100_SXM_80G", "A100", "312", 80, CHART, usd="1.89",
            driver=("NVIDIA A100-SXM4-80GB",), mig=mig.GH100_80G),
    _nvidia("A800_PCIe_40G", "A800", "312", 40, CHART, usd="1.64",
            driver=("NVIDIA A800-PCIE-40GB",), mig=mig.A100_40G),
    _nvidia("A800_SXM_40G", "A800", "312", 40, CHART, usd="1.89",
            driver=("NVIDIA A800-SXM4-40GB",), mig=mig.A100_40G),
    _nvidia("A800_PCIe_80G", "A800", "312", 80, CHART, usd="1.64",
            driver=("NVIDIA A800 80GB PCIe", "NVIDIA A800-PCIE-80GB"), mig=mig.GH100_80G),
    _nvidia("A800_SXM_80G", "A800", "312", 80, CHART, usd="1.89",
            driver=("NVIDIA A800-SXM4-80GB",), mig=mig.GH100_80G),
    # Ada
    _nvidia("L4", "L4", "121", 24, CHART, usd="0.43", driver=("NVIDIA L4",)),
    _nvidia("L20", "L20", "119.5", 48, "NVIDIA L20 product brief", driver=("NVIDIA L20",)),
    _nvidia("L40", "L40", "181", 48, CHART, usd="0.7", driver=("NVIDIA L40",),
            note="The chart's ProviderConfig says 362, which is with sparsity."),
    _nvidia("L40S", "L40S", "365", 48, CHART, usd="1.4", driver=("NVIDIA L40S",), note="Datasheet: 362.05."),
    # Hopper
    _nvidia("H20", "H20", "148", 96, CHART, usd="1", driver=("NVIDIA H20",), mig=mig.GH100_96G),
    _nvidia("H100_PCIe", "H100", "756", 80, PROVIDER, usd="2.39", aliases=("H100_PCIe_80G",),
            driver=("NVIDIA H100 PCIe",), mig=mig.GH100_80G,
            note="As in the datasheet. The chart's gpu-public-gpu-info, from which the price is, says 835."),
    _nvidia("H100_SXM", "H100", "989", 80, CHART, usd="2.99", aliases=("H100_SXM_80G",),
            driver=("NVIDIA H100 80GB HBM3",), mig=mig.GH100_80G),
    _nvidia("H100_NVL", "H100", "989", 94, CHART, usd="2.99", driver=("NVIDIA H100 NVL",), mig=mig.GH100_94G,
            note="Datasheet: 835."),
    _nvidia("GH200_96G", "GH200", "990", 96, "NVIDIA GH200 Grace Hopper Superchip datasheet",
            driver=("NVIDIA GH200 480GB",), mig=mig.GH100_96G),
    _nvidia("GH200_144G", "GH200", "990", 144, "NVIDIA GH200 Grace Hopper Superchip datasheet",
            driver=("NVIDIA GH200 144G HBM3e",), mig=mig.GH200_144G),
    _nvidia("H200", "H200", "989", 141, CHART, usd="3.99", aliases=("H200_SXM",),
            driver=("NVIDIA H200",), mig=mig.H200),
    _nvidia("H200_NVL", "H200", "835", 141, CHART, usd="3.99", driver=("NVIDIA H200 NVL",), mig=mig.H200),
    _nvidia("H800_PCIe", "H800", "756", 80, PROVIDER, usd="2.39", driver=("NVIDIA H800 PCIe",), mig=mig.GH100_80G,
            note="The chart's gpu-public-gpu-info, from which the price is, says 835."),
    _nvidia("H800_SXM", "H800", "989", 80, CHART, usd="2.99",
            driver=("NVIDIA H800", "NVIDIA H800 80GB HBM3"), mig=mig.GH100_80G),
    _nvidia("H800_NVL", "H800", "835", 94, CHART, usd="2.79", driver=("NVIDIA H800 NVL",), mig=mig.GH100_94G),
    # Blackwell
    _nvidia("B200_SXM", "B200", "2250", 180, CHART, usd="6.39",
            driver=("NVIDIA B200", "NVIDIA B200 SXM"), mig=mig.B200),
    _nvidia("GB200", "GB200", "2500", 186, "NVIDIA GB200 NVL72 datasheet",
            driver=("NVIDIA GB200",), mig=mig.GB200, note="Half of the published 5 PFLOPS, which are with sparsity."),
    _nvidia("B300_SXM", "B300", "2250", 270, "NVIDIA HGX platform datasheet", aliases=("B300_SXM6",),
            driver=("NVIDIA B300", "NVIDIA B300 SXM6 AC"), mig=mig.B300,
            note="Half of the published 36 PFLOPS for eight, which are with sparsity."),
    _nvidia("GB300", "GB300", "2500", 279, "NVIDIA GB300 NVL72 datasheet",
            driver=("NVIDIA GB300", "NVIDIA GB300 NVL"), mig=mig.GB300,
            note="Half of the published 5 PFLOPS, which are with sparsity."),
)  # fmt: skip
