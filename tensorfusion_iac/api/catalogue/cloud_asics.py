"""Accelerators that come with a cloud or an appliance: AWS Neuron, Google TPU, Qualcomm Cloud AI, Cerebras.

Each figure is per device as its own software counts devices: an AWS chip, a TPU chip, a Cloud AI SoC, a wafer.
"""

from __future__ import annotations

from functools import partial

from tensorfusion_iac.api.catalogue.model import GpuModel, gpu
from tensorfusion_iac.api.vendors import Vendor

_aws = partial(gpu, Vendor.AWS_NEURON)
_tpu = partial(gpu, Vendor.GOOGLE)
_qualcomm = partial(gpu, Vendor.QUALCOMM)
_cerebras = partial(gpu, Vendor.CEREBRAS)

_BF16 = "BF16: the chip has no FP16 matrix arithmetic."

MODELS: tuple[GpuModel, ...] = (
    _aws("Inferentia1", "Inferentia", "64", 8, "AWS Neuron documentation, Inferentia Architecture", aliases=("Inf1",)),
    _aws("Inferentia2", "Inferentia2", "190", 32, "AWS Neuron documentation, Inferentia2 Architecture",
         aliases=("Inf2",)),
    _aws("Trainium1", "Trainium", "190", 32, "AWS Neuron documentation, Trainium Architecture", aliases=("Trn1",)),
    _aws("Trainium2", "Trainium2", "667", 96, "AWS Neuron documentation, Trainium2 Architecture", aliases=("Trn2",)),
    _aws("Trainium3", "Trainium3", "671", 144, "AWS Neuron documentation, Trainium3 Architecture", aliases=("Trn3",)),
    _tpu("TPU_v3", "TPU_v3", "123", 32, "Google Cloud documentation, TPU v3", note=_BF16),
    _tpu("TPU_v4", "TPU_v4", "275", 32, "Google Cloud documentation, TPU v4", note=_BF16),
    _tpu("TPU_v5e", "TPU_v5e", "197", 16, "Google Cloud documentation, TPU v5e", aliases=("v5litepod",), note=_BF16),
    _tpu("TPU_v5p", "TPU_v5p", "459", 95, "Google Cloud documentation, TPU v5p", note=_BF16),
    _tpu("TPU_v6e", "TPU_v6e", "918", 32, "Google Cloud documentation, TPU v6e (Trillium)",
         aliases=("Trillium",), note=_BF16),
    _qualcomm("AI100_Standard", "AI100", "175", 16, "Qualcomm Cloud AI 100 product brief"),
    _qualcomm("AI100_Pro", "AI100", "200", 32, "Qualcomm Cloud AI 100 product brief",
              note="Also sold with 16 GB."),
    _qualcomm("AI100_Ultra", "AI100", "72", 32, "Qualcomm Cloud AI 100 Ultra product brief",
              note="One of the four SoCs. The card has 288 TFLOPS, 128 GiB."),
    _cerebras("WSE-3", "WSE", "125000", 44, "Cerebras CS-3 datasheet", aliases=("WSE3", "CS-3"),
              note="Published as 125 peak AI petaflops, without a word on sparsity; the memory is on the wafer."),
)  # fmt: skip
