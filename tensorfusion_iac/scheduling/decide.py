"""The extender's decisions: which nodes fit, how much each is wanted, and at bind, whether the books allow it (ARCHITECTURE).

Filter puts a hold on the best node, so that the next pod's Filter, which runs while this one is being bound, does not count
on the same room. Which node kube-scheduler takes in the end is known at Bind only: there the hold stays or moves, or the
bind is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, repeat
from operator import itemgetter

import numpy as np

from tensorfusion_iac.planning.allocate import Fit
from tensorfusion_iac.planning.explain import Explanation, explain
from tensorfusion_iac.planning.fit import Asker, reasons
from tensorfusion_iac.planning.inventory import Bools
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.place import best_node, most_wanted, node_scores
from tensorfusion_iac.planning.reasons import WORDS, Reason
from tensorfusion_iac.planning.shares import Reservation, reserve
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

HOLD_S = 15.0
"""How long a hold waits for its Bind."""
TOP_SCORE = 10
"""kube-scheduler's highest extender score."""
MOST_NAMED = 100
"""Of more nodes that fit a replica, only the most wanted are named, for kube-scheduler to score (docs/decisions/0033)."""
UNSHOWN_S = 120.0
"""How long those who hear of a refused pod remember it while the watch has not shown it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which of the asked nodes fit, the most wanted of them if they are many; if none does, the reason of each."""

    nodes: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    explanation: Explanation | None = None


NodeSet = bytes
"""Nodes with GPUs, as bits by their row in the inventory: thousands of names for each waiting pod would be too many."""
Refused = Callable[[GpuPod, Explanation, NodeSet], None]
"""Hears of a pod that fits nowhere, with the nodes that were asked about."""


class Decider:
    """Decides over one cluster's state."""

    def __init__(self, state: ClusterState, hold_s: float = HOLD_S) -> None:
        self._state, self._hold_s = state, hold_s
        self._on_refused: list[Refused] = []
        self._on_placed: list[Callable[[str], None]] = []
        self.nominations: Mapping[str, str] = {}
        """By pod UID, the node that is being freed for it."""
        self.holds_back: Callable[[GpuPod], str] = lambda pod: ""
        """Why a member of a group that starts together may not be placed now; empty if it may."""

    def on_refused(self, listener: Refused) -> None:
        """Call when a pod fits nowhere."""
        self._on_refused.append(listener)

    def on_placed(self, listener: Callable[[str], None]) -> None:
        """Call with the UID of a pod that found a place."""
        self._on_placed.append(listener)

    def mask_of(self, nodes: NodeSet) -> Bools:
        """The rows of some nodes; rows that are newer are not among them."""
        mask = np.zeros(self._state.inventory.nominated.shape, np.bool_)
        known = np.unpackbits(np.frombuffer(nodes, np.uint8))[: mask.size]
        mask[: known.size] = known
        return mask

    def names_of(self, nodes: NodeSet) -> list[str]:
        """The names of some nodes, those that are gone left out."""
        names = self._state.inventory.node_names
        return [names[row] for row in np.flatnonzero(self.mask_of(nodes)).tolist() if row < len(names) and names[row]]

    def asker(self, pod: GpuPod) -> Asker:
        """On whose behalf a pod asks."""
        row = self._state.inventory.row_of.get(self.nominations.get(pod.uid, ""), -1)
        return Asker(pod.priority, self._state.ledger.budget(pod.namespace), row)

    def filter(self, pod: GpuPod, candidates: Sequence[str]) -> Verdict:
        """The candidates that fit, as many as kube-scheduler has to choose among (decision 33); a hold goes on the best."""
        state = self._state
        if pod.uid in state.gone:
            return Verdict([], dict.fromkeys(candidates, "the pod is gone"))
        entry = state.ledger.get(pod.uid)
        if entry is not None and entry.state is not State.HELD:
            return _only(entry.reservation.node, candidates)  # it is bound there, or may be
        if pod.worker.gang is not None and (why := self.holds_back(pod)):
            return Verdict([], dict.fromkeys(candidates, why))
        state.ledger.release(pod.uid)  # an earlier hold
        asker = self.asker(pod)
        fit = state.allocator.fit(pod.claim, asker)
        rows = self._rows(candidates)
        fitting = (rows >= 0) & fit.nodes[rows]
        if not fitting.any():
            return self._refuse(pod, asker, candidates, rows)
        allowed = np.zeros(fit.nodes.shape, np.bool_)
        allowed[rows[fitting]] = True
        held = self._hold_best(pod, asker, fit, allowed)
        if held is None:
            return self._refuse(pod, asker, candidates, rows)
        for listener in self._on_placed:
            listener(pod.uid)
        if pod.prefers or held.node in state.shunned:
            return Verdict(list(compress(candidates, fitting.tolist())))
        if not pod.replica:
            return Verdict([held.node])
        allowed = most_wanted(fit.scores, allowed, MOST_NAMED)
        allowed[state.inventory.row_of[held.node]] = True
        few = np.flatnonzero((rows >= 0) & allowed[rows])
        return Verdict([candidates[at] for at in few.tolist()])

    def scores(self, pod: GpuPod, candidates: Sequence[str]) -> list[tuple[str, int]]:
        """What each candidate is worth, 0 to 10; those worth 0 are left out, for that is what it means."""
        rows = self._rows(candidates)
        worth = np.where(rows >= 0, node_scores(self._state.inventory, pod.claim)[rows], 0.0)
        least, most = (float(worth.min()), float(worth.max())) if worth.size else (0.0, 0.0)
        span = most - least
        levels = (
            np.floor((worth - least) / span * (TOP_SCORE - 1)).astype(np.int64) if span > 0 else np.zeros(rows.shape, np.int64)
        )
        entry = self._state.ledger.get(pod.uid)
        if entry is not None:
            levels[rows == self._state.inventory.row_of.get(entry.reservation.node, -2)] = TOP_SCORE
        wanted = np.flatnonzero(levels)
        return [(candidates[at], level) for at, level in zip(wanted.tolist(), levels[wanted].tolist(), strict=True)]

    def reserve_on(self, pod: GpuPod, node: str) -> Reservation | str:
        """The pod's reservation on the node that was chosen, there already or made now; or in words why there is none."""
        state = self._state
        entry = state.ledger.get(pod.uid)
        if entry is not None and entry.reservation.node == node:
            if entry.state is not State.HELD:
                return entry.reservation
            if self._still_may(pod, entry.reservation):
                state.ledger.extend(pod.uid, state.clock() + self._hold_s)
                return entry.reservation
        if entry is not None and entry.state is not State.HELD:
            return f"it holds GPUs of {entry.reservation.node}, where it is bound or may be"
        if entry is not None:
            state.release(pod.uid)
        row = state.inventory.row_of.get(node)
        if row is None:
            return f"{WORDS[Reason.NO_GPUS]} {node}"
        asker = self.asker(pod)
        fit = state.allocator.fit(pod.claim, asker)
        only = np.zeros(fit.nodes.shape, np.bool_)
        only[row] = fit.nodes[row]
        held = self._hold_best(pod, asker, fit, only)
        if held is None:
            reason = Reason(int(reasons(state.inventory, pod.claim, asker)[row]))
            return f"{WORDS.get(reason, WORDS[Reason.QUOTA])} on {node}, by now"
        return held

    def explain(self, pod: GpuPod, candidates: Sequence[str] | None = None) -> Explanation:
        """Why a pod is where it is not, over the candidates, or all nodes with GPUs."""
        ledger = self._state.ledger
        rows = None if candidates is None else self._rows(candidates)
        explanation = explain(
            self._state.inventory,
            pod.claim,
            self.asker(pod),
            rows=None if rows is None else rows[rows >= 0],
            quota=ledger.quota(pod.namespace),
            used=ledger.used(pod.namespace),
            elsewhere=() if rows is None or candidates is None else [candidates[at] for at in np.flatnonzero(rows < 0).tolist()],
        )
        note = "" if explanation.fitting or pod.claim.pool is None else self._state.why_no_nodes(pod.claim.pool)
        return replace(explanation, note=note) if note else explanation

    def _still_may(self, pod: GpuPod, held: Reservation) -> bool:
        """Whether the held cards are there and well: one may have fallen sick since Filter."""
        usable = self._state.allocator.masks.get(self._state.inventory, pod.claim)
        places = [self._state.inventory.place_of(share.uuid) for share in held.shares]
        return all(place is not None and bool(usable[place]) for place in places)

    def _hold_best(self, pod: GpuPod, asker: Asker, fit: Fit, allowed: np.ndarray) -> Reservation | None:
        """Hold the cards of the best allowed node; the next best if its cards cannot be had together."""
        state = self._state
        remaining = allowed.copy()
        while (row := best_node(fit.scores, remaining)) is not None:
            chosen = state.allocator.choose(pod.claim, asker, fit, row)
            if chosen is not None:
                held = reserve(pod.claim, chosen, uid=pod.uid, namespace=pod.namespace, name=pod.name, priority=pod.priority)
                state.ledger.hold(held, state.clock() + self._hold_s)
                return held
            remaining[row] = False
        return None

    def _refuse(self, pod: GpuPod, asker: Asker, candidates: Sequence[str], rows: np.ndarray) -> Verdict:
        found = reasons(self._state.inventory, pod.claim, asker)
        found[found == Reason.FITS] = int(Reason.QUOTA)  # cards enough, but no choice of them is affordable
        codes = np.where(rows >= 0, found[rows], int(Reason.NO_GPUS)).tolist()
        words = {int(reason): text for reason, text in WORDS.items()}
        explanation = self.explain(pod, candidates)
        asked = np.zeros(self._state.inventory.nominated.shape, np.bool_)
        asked[rows[rows >= 0]] = True
        nodes = np.packbits(asked).tobytes()
        for listener in self._on_refused:
            listener(pod, explanation, nodes)
        return Verdict([], {node: words[code] for node, code in zip(candidates, codes, strict=True)}, explanation)

    def _rows(self, candidates: Sequence[str]) -> np.ndarray:
        """The row of each candidate, -1 where it has none: thousands of look-ups, so in as few steps as can be."""
        row_of = self._state.inventory.row_of
        if len(candidates) > 1:
            try:
                return np.array(itemgetter(*candidates)(row_of), np.int64)
            except KeyError:  # some node has no GPUs
                pass
        return np.fromiter(map(row_of.get, candidates, repeat(-1)), np.int64, len(candidates))


def _only(node: str, candidates: Sequence[str]) -> Verdict:
    if node in candidates:
        return Verdict([node])
    text = f"the pod holds GPUs of {node}, where it may be bound already"
    return Verdict([], dict.fromkeys(candidates, text))
