"""`Claim`: what one vGPU worker claims of the GPUs of one node, in whole numbers, ready for the arithmetic of a decision.

Made once per pod from its `WorkerSpec` (the annotation `resolved`), and from nothing else (SPEC §2, §3, §7).
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec
from tensorfusion_iac.planning.units import mflops_up, ppm_up, share_of

_GUARANTEED = (QoS.HIGH, QoS.CRITICAL)


@dataclass(frozen=True, slots=True)
class ComputeClaim:
    """Compute of one GPU: MFLOPS, or parts per million of whatever card it will be. Exactly one of the two is set."""

    mflops: int | None = None
    ppm: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's claim; amounts are per GPU. None as a limit: no bound; `compute` None: nothing of it is reserved.

    `firm` claims never use oversold compute (SPEC §4: only `soft` below `high` may). `whole_card` takes idle cards in full.
    `template` is the MIG profile that is asked for by name.
    """

    pool: str | None
    vendor: Vendor
    gpu_count: int
    isolation: Isolation
    firm: bool = True
    model: str | None = None
    indices: tuple[int, ...] | None = None
    whole_card: bool = False
    template: str | None = None
    compute: ComputeClaim | None = None
    compute_limit: ComputeClaim | None = None
    vram_bytes: int = 0
    vram_limit_bytes: int | None = None

    @property
    def partitioned(self) -> bool:
        """Whether it takes hardware partitions."""
        return self.isolation is Isolation.PARTITIONED and not self.whole_card

    def mflops_on(self, capacity_mflops: int) -> int:
        """What is reserved of a card's compute."""
        return capacity_mflops if self.whole_card else _on(self.compute, capacity_mflops, 0)

    def limit_mflops_on(self, capacity_mflops: int) -> int:
        """The compute limit on a card: a missing one is the whole card (SPEC §3)."""
        return capacity_mflops if self.whole_card else _on(self.compute_limit, capacity_mflops, capacity_mflops)

    def vram_on(self, capacity_bytes: int) -> int:
        """What is reserved of a card's memory."""
        return capacity_bytes if self.whole_card else self.vram_bytes

    def limit_vram_on(self, capacity_bytes: int) -> int:
        """The memory limit on a card: a missing one is the whole card."""
        if self.whole_card or self.vram_limit_bytes is None:
            return capacity_bytes
        return self.vram_limit_bytes


def claim_of(worker: WorkerSpec) -> Claim:
    """The claim of a resolved worker."""
    whole = worker.whole_card
    return Claim(
        pool=worker.pool,
        vendor=worker.vendor,
        gpu_count=worker.gpu_count,
        isolation=worker.isolation,
        firm=worker.isolation is not Isolation.SOFT or worker.qos in _GUARANTEED or whole,
        model=worker.gpu_model,
        indices=worker.gpu_indices,
        whole_card=whole,
        template=None if whole else worker.partition_template,
        compute=None if whole else _claimed(worker.compute_request),
        compute_limit=None if whole else _claimed(worker.compute_limit),
        vram_bytes=0 if whole else worker.vram_request_bytes or 0,
        vram_limit_bytes=None if whole else worker.vram_limit_bytes,
    )


def _claimed(compute: Compute | None) -> ComputeClaim | None:
    if compute is None:
        return None
    if compute.unit is Unit.TFLOPS:
        return ComputeClaim(mflops=mflops_up(compute.value))
    return ComputeClaim(ppm=ppm_up(compute.value))


def _on(claim: ComputeClaim | None, capacity_mflops: int, otherwise: int) -> int:
    if claim is None:
        return otherwise
    if claim.mflops is not None:
        return claim.mflops
    return share_of(claim.ppm or 0, capacity_mflops)
