"""AMD and Intel models. FP16 is the dense matrix figure of the vendor's own page, BF16 where the vendor gives no FP16.

AMD's modules of two dies (MI250, MI250X) are two devices to the driver, and so to us: each has half of the module.
"""

from __future__ import annotations

from functools import partial

from tensorfusion_iac.api.catalogue.model import GpuModel, gpu
from tensorfusion_iac.api.catalogue.nvidia import CHART
from tensorfusion_iac.api.vendors import Vendor

_amd = partial(gpu, Vendor.AMD)
_intel = partial(gpu, Vendor.INTEL)

_VECTOR = "FP16 of the vector units; this generation has no matrix units."

MODELS: tuple[GpuModel, ...] = (
    _amd("MI100", "MI100", "184.6", 32, "AMD Instinct MI100 data sheet", driver=("AMD Instinct MI100",)),
    _amd("MI210", "MI210", "181.0", 64, "AMD Instinct MI210 data sheet", driver=("AMD Instinct MI210",)),
    _amd("MI250", "MI250", "181.05", 64, "AMD Instinct MI200 series data sheet", driver=("AMD Instinct MI250",),
         note="One die. The module has two: 362.1 TFLOPS, 128 GiB."),
    _amd("MI250X", "MI250X", "191.5", 64, "AMD Instinct MI200 series data sheet", driver=("AMD Instinct MI250X",),
         note="One die. The module has two: 383.0 TFLOPS, 128 GiB."),
    _amd("MI300A", "MI300A", "980.6", 128, "AMD Instinct MI300A data sheet", driver=("AMD Instinct MI300A",)),
    _amd("MI300X", "MI300X", "1307.4", 192, "AMD Instinct MI300X data sheet",
         driver=("AMD Instinct MI300X", "AMD Instinct MI300X OAM")),
    _amd("MI325X", "MI325X", "1307.4", 256, "AMD Instinct MI325X data sheet",
         driver=("AMD Instinct MI325X", "AMD Instinct MI325X OAM")),
    _amd("MI350X", "MI350X", "2300", 288, "AMD Instinct MI350X product page", driver=("AMD Instinct MI350X",),
         note="Published as 2.3 PFLOPS."),
    _amd("MI355X", "MI355X", "2500", 288, "AMD Instinct MI355X product page", driver=("AMD Instinct MI355X",),
         note="Published as 2.5 PFLOPS."),
    _amd("W7800", "W7800", "90.5", 32, "AMD Radeon PRO W7800 product page", driver=("AMD Radeon PRO W7800",)),
    _amd("W7900", "W7900", "122.6", 48, "AMD Radeon PRO W7900 product page", driver=("AMD Radeon PRO W7900",)),
    _amd("RX6800", "RX6800", "32.34", 16, CHART, usd="0.11", driver=("AMD Radeon RX 6800",), note=_VECTOR),
    _amd("RX6800XT", "RX6800XT", "41.48", 16, CHART, usd="0.13", driver=("AMD Radeon RX 6800 XT",), note=_VECTOR),
    _amd("RX6900XT", "RX6900XT", "46.08", 16, CHART, usd="0.15", driver=("AMD Radeon RX 6900 XT",), note=_VECTOR),
    _amd("RX7600", "RX7600", "43.0", 8, CHART, usd="0.08", driver=("AMD Radeon RX 7600",)),
    _amd("RX7700XT", "RX7700XT", "68.4", 12, CHART, usd="0.12", driver=("AMD Radeon RX 7700 XT",)),
    _amd("RX7800XT", "RX7800XT", "85.2", 16, CHART, usd="0.15", driver=("AMD Radeon RX 7800 XT",)),
    _amd("RX7900XT", "RX7900XT", "106.8", 20, CHART, usd="0.18", driver=("AMD Radeon RX 7900 XT",)),
    _amd("RX7900XTX", "RX7900XTX", "122.8", 24, CHART, usd="0.2", driver=("AMD Radeon RX 7900 XTX",)),
    _intel("Gaudi2", "Gaudi2", "432", 96, "Intel Gaudi 3 presentation, Hot Chips 2024 (product generations)",
           aliases=("HL-225",), note="BF16."),
    _intel("Gaudi3", "Gaudi3", "1835", 128, "Intel Gaudi 3 presentation, Hot Chips 2024",
           aliases=("HL-325L",), note="BF16."),
    _intel("Max_1550", "Max", "839", 128, "Intel Data Center GPU Max Series product brief",
           aliases=("Max1550",), driver=("Intel(R) Data Center GPU Max 1550",)),
)  # fmt: skip
