"""Accelerators of Chinese vendors: Ascend, Hygon, MetaX, Moore Threads, Cambricon, Enflame.

Several of these vendors publish little. A model without a published FP16 figure is left out (Enflame S60, Cambricon
MLU590, Hygon BW1000); a figure that only others have reported says so in its note.
"""

from __future__ import annotations

from functools import partial

from tensorfusion_iac.api.catalogue.model import GpuModel, gpu
from tensorfusion_iac.api.vendors import Vendor

_ascend = partial(gpu, Vendor.ASCEND)
_hygon = partial(gpu, Vendor.HYGON)
_metax = partial(gpu, Vendor.METAX)
_mthreads = partial(gpu, Vendor.MTHREADS)
_cambricon = partial(gpu, Vendor.CAMBRICON)
_enflame = partial(gpu, Vendor.ENFLAME)

_REPORTED = "Reported by users of the card; the vendor has published no figure for it."

MODELS: tuple[GpuModel, ...] = (
    _ascend("Ascend310P3", "Ascend310P", "70", 24, "Huawei Atlas 300I Pro user guide", aliases=("310P3",)),
    _ascend("Ascend910A", "Ascend910A", "256", 32, "Huawei Ascend 910 announcement; Atlas 300T user guide",
            aliases=("910A",)),
    _ascend("Ascend910B1", "Ascend910B", "414", 64, "Public overview of Ascend 910B variants and their servers",
            aliases=("910B1",), note=_REPORTED),
    _ascend("Ascend910B2", "Ascend910B", "376", 64, "Huawei Atlas 800T A2 white paper (376 TFLOPS option)",
            aliases=("910B2",)),
    _ascend("Ascend910B3", "Ascend910B", "313", 64, "Huawei Atlas 800T A2 white paper (313 TFLOPS option)",
            aliases=("910B3",)),
    _ascend("Ascend910B4", "Ascend910B", "280", 32, "Huawei Atlas 800I A2 white paper (280 TFLOPS)",
            aliases=("910B4",)),
    _hygon("K100_AI", "K100", "192", 64, "Public overviews of the Hygon DCU K100 AI", note=_REPORTED),
    _metax("C500", "C500", "240", 64, "Public overviews of the MetaX C500 (PCIe)",
           aliases=("MXC500",), driver=("MetaX C500",), note=_REPORTED),
    _metax("C500_OAM", "C500", "280", 64, "Public overviews of the MetaX C500 (OAM)", note=_REPORTED),
    _mthreads("MTT_S4000", "MTT_S4000", "100", 48, "Moore Threads MTT S4000 product page",
              aliases=("S4000",), driver=("MTT S4000",)),
    _cambricon("MLU370-S4", "MLU370", "72", 24, "Cambricon MLU370-S4 product page"),
    _cambricon("MLU370-X4", "MLU370", "96", 24, "Cambricon MLU370-X4 product page"),
    _cambricon("MLU370-X8", "MLU370", "96", 48, "Cambricon MLU370-X8 product page"),
    _enflame("T20", "T20", "128", 32, "Enflame CloudBlazer T20 product manual", aliases=("CloudBlazer_T20",)),
    _enflame("T21", "T21", "128", 32, "Enflame CloudBlazer T21 product manual", aliases=("CloudBlazer_T21",)),
    _enflame("i20", "i20", "128", 16, "Enflame CloudBlazer i20 product page", aliases=("CloudBlazer_i20",)),
)  # fmt: skip
