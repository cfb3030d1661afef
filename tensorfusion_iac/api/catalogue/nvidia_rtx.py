"""NVIDIA GeForce, TITAN, Quadro and RTX workstation models, named and rated as the public operator does.

Its figures for these cards mix tensor cores, CUDA cores and accumulators. They are kept, since manifests ask by them,
and the notes say what the datasheet has instead. If two memory sizes share a driver name, the smaller has it.
"""

from __future__ import annotations

from functools import partial

from tensorfusion_iac.api.catalogue import mig
from tensorfusion_iac.api.catalogue.model import GpuModel, gpu
from tensorfusion_iac.api.catalogue.nvidia import CHART
from tensorfusion_iac.api.vendors import Vendor

_CUDA_CORES = "FP16 of the CUDA cores; the tensor cores give more."
_ACCUMULATE = "With FP16 accumulation; half of it with FP32."

_nvidia = partial(gpu, Vendor.NVIDIA)


def _geforce(name: str, tflops: str, gib: int, usd: str, product: str, note: str = "") -> GpuModel:
    """Make a consumer card, a family of its own; no product name if another memory size has the same one."""
    driver = (f"NVIDIA GeForce {product}",) if product else ()
    alias = name.replace("RTX_", "RTX") if name.startswith("RTX_") else name.replace("RTX", "RTX_")
    return _nvidia(name, name, tflops, gib, CHART, usd=usd, aliases=(alias,), driver=driver, note=note)


MODELS: tuple[GpuModel, ...] = (
    # Turing
    _geforce("RTX2060", "12.9", 6, "0.05", "RTX 2060", _CUDA_CORES),
    _geforce("RTX2060S", "14.4", 8, "0.06", "RTX 2060 SUPER", _CUDA_CORES),
    _geforce("RTX2070", "14.93", 8, "0.06", "RTX 2070", _CUDA_CORES),
    _geforce("RTX2070S", "18.12", 8, "0.07", "RTX 2070 SUPER", _CUDA_CORES),
    _geforce("RTX2080", "20.14", 8, "0.08", "RTX 2080", _CUDA_CORES),
    _geforce("RTX2080S", "22.30", 8, "0.09", "RTX 2080 SUPER", _CUDA_CORES),
    _geforce("RTX2080Ti", "26.9", 11, "0.1", "RTX 2080 Ti", _CUDA_CORES),
    _nvidia("TITANRTX", "TITANRTX", "32.62", 24, CHART, usd="0.12",
            aliases=("TITAN_RTX",), driver=("NVIDIA TITAN RTX",), note=_CUDA_CORES),
    _nvidia("Quadro_RTX_6000", "Quadro_RTX_6000", "130.5", 24, "NVIDIA Quadro RTX 6000 datasheet",
            driver=("Quadro RTX 6000",)),
    _nvidia("Quadro_RTX_8000", "Quadro_RTX_8000", "130.5", 48, "NVIDIA Quadro RTX 8000 datasheet",
            driver=("Quadro RTX 8000",)),
    # Ampere
    _geforce("RTX3050", "18.22", 8, "0.05", "RTX 3050"),
    _geforce("RTX3060", "26.0", 12, "0.07", "RTX 3060"),
    _geforce("RTX3060Ti", "32.4", 8, "0.08", "RTX 3060 Ti"),
    _geforce("RTX3070", "40.6", 8, "0.1", "RTX 3070"),
    _geforce("RTX3070Ti", "43.6", 8, "0.1", "RTX 3070 Ti"),
    _geforce("RTX3080", "59.6", 10, "0.18", "RTX 3080"),
    _geforce("RTX3080_12GB", "61.2", 12, "0.2", ""),
    _geforce("RTX3080Ti", "68.2", 12, "0.18", "RTX 3080 Ti"),
    _geforce("RTX3090", "71.2", 24, "0.25", "RTX 3090", "With FP32 accumulation; twice that with FP16."),
    _geforce("RTX3090Ti", "80.0", 24, "0.21", "RTX 3090 Ti"),
    _nvidia("RTXA2000", "RTXA2000", "32", 6, CHART, usd="0.1",
            aliases=("RTX_A2000",), driver=("NVIDIA RTX A2000",)),
    _nvidia("RTXA4000", "RTXA4000", "76.5", 16, CHART, usd="0.24",
            aliases=("RTX_A4000",), driver=("NVIDIA RTX A4000",)),
    _nvidia("RTXA4500", "RTXA4500", "94.5", 20, CHART, usd="0.23",
            aliases=("RTX_A4500",), driver=("NVIDIA RTX A4500",)),
    _nvidia("RTXA5000", "RTXA5000", "111", 24, CHART, usd="0.26",
            aliases=("RTX_A5000",), driver=("NVIDIA RTX A5000",)),
    _nvidia("A6000", "A6000", "38.71", 48, CHART, usd="0.49",
            aliases=("RTXA6000", "RTX_A6000"), driver=("NVIDIA RTX A6000",),
            note="FP16 of the CUDA cores. Datasheet: 154.8 on the tensor cores."),
    # Ada
    _geforce("RTX4060", "44.0", 8, "0.1", "RTX 4060"),
    _geforce("RTX4060Ti", "44.0", 8, "0.11", "RTX 4060 Ti"),
    _geforce("RTX4060Ti_16GB", "44.0", 16, "0.12", ""),
    _geforce("RTX4070", "58.0", 12, "0.15", "RTX 4070"),
    _geforce("RTX4070S", "60.0", 12, "0.18", "RTX 4070 SUPER"),
    _geforce("RTX4070Ti", "78.86", 12, "0.2", "RTX 4070 Ti"),
    _geforce("RTX4070TiS", "80.0", 16, "0.22", "RTX 4070 Ti SUPER"),
    _geforce("RTX4080", "97.48", 16, "0.23", "RTX 4080"),
    _geforce("RTX4080S", "104.0", 16, "0.25", "RTX 4080 SUPER"),
    _geforce("RTX4090", "165.16", 24, "0.3", "RTX 4090", "With FP32 accumulation; twice that with FP16."),
    _nvidia("RTX2000Ada", "RTX2000Ada", "46", 16, CHART, usd="0.23",
            aliases=("RTX_2000_Ada",), driver=("NVIDIA RTX 2000 Ada Generation",)),
    _nvidia("RTX4000AdaGen", "RTX4000AdaGen", "163", 20, CHART, usd="0.26",
            aliases=("RTX4000Ada", "RTX_4000_Ada"), driver=("NVIDIA RTX 4000 Ada Generation",)),
    _nvidia("A6000Ada", "A6000Ada", "323", 48, CHART, usd="0.77",
            aliases=("RTX6000Ada", "RTX_6000_Ada"), driver=("NVIDIA RTX 6000 Ada Generation",),
            note="Datasheet: 182.1, or 364.2 with sparsity."),
    # Blackwell
    _geforce("RTX_5060", "42", 8, "0.18", "RTX 5060"),
    _geforce("RTX_5060Ti", "51", 8, "0.2", "RTX 5060 Ti", "Also sold with 16 GB, under the same driver name."),
    _geforce("RTX_5070", "124", 12, "0.3", "RTX 5070", _ACCUMULATE),
    _geforce("RTX_5070Ti", "177.4", 16, "0.5", "RTX 5070 Ti", _ACCUMULATE),
    _geforce("RTX_5080", "225", 16, "0.9", "RTX 5080", _ACCUMULATE),
    _geforce("RTX_5090D", "380", 32, "0.65", "RTX 5090 D", _ACCUMULATE),
    _geforce("RTX_5090", "419.2", 32, "0.89", "RTX 5090", _ACCUMULATE),
    _nvidia("RTX_PRO_6000_WS", "RTX_PRO_6000", "503.8", 96, "NVIDIA RTX Blackwell PRO GPU Architecture whitepaper",
            driver=("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",), mig=mig.RTX_PRO_6000),
    _nvidia("RTX_PRO_6000_SE", "RTX_PRO_6000", "500", 96, "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet",
            driver=("NVIDIA RTX PRO 6000 Blackwell Server Edition",), mig=mig.RTX_PRO_6000,
            note="Half of the published 1 PFLOPS, which is with sparsity."),
)  # fmt: skip
