"""What the catalogue knows of one accelerator model: size, price, MIG geometry, and where the figures are from.

Read by validation (`gpu-model`, `partition-template`: SPEC §2), the scheduler (models of cards) and reports (price).
The figures are for planning; on a running node its driver's word wins ("a card's capacity is what is usable", SPEC §2).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tensorfusion_iac.api.vendors import Vendor

GIB = 2**30


@dataclass(frozen=True, slots=True)
class MigTemplate:
    """One MIG profile of one card. NVML's GpuInstancePossiblePlacements `{0,4}:4` is starts (0, 4), size 4.

    NVML's numeric profile id is left out, for it is another size on another card: the agent looks it up by name.
    """

    name: str
    memory_gib: int
    """Nominal, the number in the name. The driver's own figure is a little lower and changes between drivers."""
    compute_slices: int
    max_instances: int
    starts: tuple[int, ...]
    """Memory slots at which an instance may begin."""
    size: int
    """Memory slots that an instance takes."""

    @property
    def variant(self) -> str:
        """The suffix for media or graphics engines (`+me`, `-me`, `+gfx`, ...); empty for the plain profile.

        A choice by least waste takes plain profiles only: the others are for those who name them.
        """
        return self.name.partition("gb")[2]


@dataclass(frozen=True, slots=True)
class MigGeometry:
    """How a card can be cut: all of its compute slices and memory slots, and the templates, smallest first."""

    compute_slices: int
    memory_slots: int
    templates: tuple[MigTemplate, ...]
    source: str


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One model, per device as its driver counts devices (a card with two chips that the driver lists apart is two)."""

    name: str
    """What `gpu-model` and GPU.status.model call it; the public operator's name where it has one."""
    vendor: Vendor
    family: str
    """What `gpu-model` may name to mean any of several models: A100 for A100_SXM_80G and A100_PCIe_40G."""
    fp16_tflops: Decimal
    """Dense FP16 on the matrix units, unless `note` says otherwise."""
    nominal_vram_bytes: int
    """As sold. What is usable is less, and only the driver knows it."""
    source: str
    """Title of the document that the TFLOPS are from (the price too, if there is one)."""
    usd_per_hour: Decimal | None = None
    """Reference price of one device; None where the source has none."""
    aliases: tuple[str, ...] = ()
    driver_names: tuple[str, ...] = ()
    """Product names that the driver reports (nvmlDeviceGetName), each of one model only."""
    note: str = ""
    mig: MigGeometry | None = None

    @property
    def nominal_vram_gib(self) -> int:
        """The nominal memory in GiB, a whole number."""
        return self.nominal_vram_bytes // GIB


def gpu(
    vendor: Vendor, name: str, family: str, tflops: str, gib: int, source: str, *, usd: str | None = None,
    aliases: tuple[str, ...] = (), driver: tuple[str, ...] = (), note: str = "", mig: MigGeometry | None = None,
) -> GpuModel:  # fmt: skip
    """Make a row of a data module: TFLOPS and dollars as text, so that no float comes between, and memory in GiB."""
    price = None if usd is None else Decimal(usd)
    return GpuModel(name, vendor, family, Decimal(tflops), gib * GIB, source, price, aliases, driver, note, mig)
