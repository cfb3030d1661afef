"""Why a pod is pending, over all nodes, in words and numbers (SPEC §7; API.md `tensorfusion explain`).

Counts the first reason of each node, and adds to a shortage what was asked and the most that any of those nodes has left on
enough cards. A condition of the pod carries the summary, `explain` the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from tensorfusion_iac.api.quantity import format_decimal
from tensorfusion_iac.planning.charge import Charge, Quota, charge_of, used_up
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker, fact_mask, reasons
from tensorfusion_iac.planning.inventory import Bools, Ints, Inventory
from tensorfusion_iac.planning.reasons import WORDS, Reason
from tensorfusion_iac.planning.shares import share_on
from tensorfusion_iac.planning.units import tflops_text

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason: on how many nodes, and in words with its numbers."""

    reason: Reason
    nodes: int
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a claim is not placed. `nodes` were looked at, of which `fitting` could take it now."""

    nodes: int
    fitting: int
    findings: tuple[Finding, ...]
    note: str = ""
    """What is wrong before any node is looked at."""

    @property
    def kinds(self) -> frozenset[Reason]:
        """The set of reasons, whatever their numbers."""
        return frozenset(finding.reason for finding in self.findings)

    def text(self) -> str:
        """One line: `1,240 nodes: GPU model is not A100; 60 nodes: ...`."""
        if self.fitting:
            return f"fits {self.fitting:,} of {self.nodes:,} nodes now"
        if not self.nodes:
            return self.note or "there is no node to look at"
        words = [f"{_nodes(finding.nodes)}: {finding.words}" for finding in self.findings]
        return "; ".join([self.note, *words] if self.note else words)


def explain(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    *,
    rows: Ints | None = None,
    quota: Quota | None = None,
    used: Charge | None = None,
    elsewhere: Sequence[str] = (),
) -> Explanation:
    """Judge all nodes (or `rows`). `elsewhere`: candidates that have no GPU at all, and so no row."""
    found = reasons(inventory, claim, asker)
    looked = np.array(sorted(inventory.row_of.values()), np.int64) if rows is None else rows
    counts = Counter(found[looked].tolist())
    if elsewhere:
        counts[int(Reason.NO_GPUS)] += len(elsewhere)
    fitting = counts.pop(int(Reason.FITS), 0)
    findings = []
    for code, nodes in counts.most_common():
        reason = Reason(code)
        of_reason = looked[found[looked] == code]
        findings.append(Finding(reason, nodes, _words(inventory, claim, reason, of_reason, quota, used)))
    return Explanation(len(looked) + len(elsewhere), fitting, tuple(findings))


def _words(
    inventory: Inventory,
    claim: Claim,
    reason: Reason,
    rows: Ints,
    quota: Quota | None,
    used: Charge | None,
) -> str:
    words = WORDS[reason]
    if reason is Reason.OTHER_MODEL:
        return f"GPU model is not {claim.model}"
    if reason is Reason.OTHER_VENDOR:
        return f"GPUs are not of {claim.vendor.value}"
    if reason is Reason.OTHER_POOL:
        return f"not in pool {claim.pool}"
    if reason is Reason.OTHER_INDEX:
        return f"{words} ({', '.join(map(str, claim.indices or ()))})"
    if reason is Reason.QUOTA:
        return _quota_words(inventory, claim, rows, quota, used)
    if reason is Reason.TOO_FEW_GPUS:
        most = int(np.count_nonzero(inventory.present[rows], axis=1).max())
        return f"{claim.gpu_count} GPUs asked, {f'nodes have {most} at most' if rows.size > 1 else f'the node has {most}'}"
    usable = fact_mask(inventory, claim)[rows]
    if reason is Reason.VRAM:
        most = _most(inventory.free_vram[rows], usable, claim.gpu_count)
        return f"VRAM {_gib(claim.vram_bytes)} asked{_each(claim)}, most free is {_gib(most)}"
    if reason is Reason.COMPUTE:
        free = inventory.free_firm_mflops[rows] if claim.firm else inventory.free_mflops[rows]
        most = _most(np.minimum(free, inventory.free_mflops[rows]), usable, claim.gpu_count)
        return f"compute {_compute(claim)} asked{_each(claim)}, most free is {tflops_text(most)} TFLOPS"
    if reason is Reason.TOO_SMALL and not claim.whole_card:
        return _size_words(inventory, claim, rows, usable)
    if claim.gpu_count > 1:
        return f"{words} ({claim.gpu_count} asked)"
    return words


def _size_words(inventory: Inventory, claim: Claim, rows: Ints, usable: Bools) -> str:
    """Which quantity no card is large enough for, with the largest; both, if only no card has them together."""
    most_vram = _most(inventory.capacity_vram[rows], usable, claim.gpu_count)
    most_mflops = _most(inventory.capacity_mflops[rows], usable, claim.gpu_count)
    vram = f"{_gib(claim.vram_bytes)} VRAM asked of each GPU, which has {_gib(most_vram)} at most"
    mflops = claim.mflops_on(most_mflops)
    compute = f"{_compute(claim)} asked of each GPU, which has {tflops_text(most_mflops)} at most"
    short = [words for words, is_short in ((vram, claim.vram_bytes > most_vram), (compute, mflops > most_mflops)) if is_short]
    if short:
        return ", and ".join(short)
    return f"{_gib(claim.vram_bytes)} VRAM and {_compute(claim)} asked of each GPU, and none has both"


def _quota_words(inventory: Inventory, claim: Claim, rows: Ints, quota: Quota | None, used: Charge | None) -> str:
    if quota is None:
        return WORDS[Reason.QUOTA]
    columns = np.flatnonzero(inventory.present[rows[0]]) if rows.size else np.array([], np.int64)
    if not columns.size:
        return f"quota {quota.name} is used up"
    share = share_on(claim, inventory.card_at(int(rows[0]), int(columns[0])))
    short = list(used_up(quota, used or Charge(), charge_of((share,) * claim.gpu_count)))
    return f"quota {quota.name}: {', '.join(short)}" if short else f"quota {quota.name} does not allow so much of one worker"


def _most(free: Ints, usable: Bools, count: int) -> int:
    """The most that `count` cards of one node all have, of the usable ones."""
    amounts = np.where(usable, np.maximum(free, 0), 0)
    if amounts.shape[1] < count or not amounts.size:
        return 0
    return int(np.sort(amounts, axis=1)[:, -count].max())


def _compute(claim: Claim) -> str:
    if claim.compute is None:
        return "none"
    if claim.compute.mflops is not None:
        return f"{tflops_text(claim.compute.mflops)} TFLOPS"
    return f"{format_decimal(Decimal(claim.compute.ppm or 0) / 10_000)}% of a card"


def _each(claim: Claim) -> str:
    return f" of each of {claim.gpu_count} GPUs" if claim.gpu_count > 1 else ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.4g}Gi"


def _nodes(count: int) -> str:
    return f"{count:,} node" if count == 1 else f"{count:,} nodes"
