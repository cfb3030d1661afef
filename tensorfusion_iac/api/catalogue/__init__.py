"""The GPU catalogue: models with TFLOPS, memory, price and MIG geometry, and how `gpu-model` names them (SPEC §2)."""

from tensorfusion_iac.api.catalogue.lookup import (
    by_driver_name,
    catalogue,
    did_you_mean,
    find,
    matches,
    mig_template,
    model_of,
    nearest,
    profile_name,
    vendor_of,
)
from tensorfusion_iac.api.catalogue.model import GpuModel, MigGeometry, MigTemplate

__all__ = [
    "GpuModel",
    "MigGeometry",
    "MigTemplate",
    "by_driver_name",
    "catalogue",
    "did_you_mean",
    "find",
    "matches",
    "mig_template",
    "model_of",
    "nearest",
    "profile_name",
    "vendor_of",
]
