"""The allocator: a claim and an inventory in, the nodes that fit, their scores and the cards of each out (SPEC §7).

Pure: it reads the inventory and changes nothing. The scheduler, the simulation, the report and provisioning all ask here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import ANYBODY, Asker, Masks, fitting_cards, fitting_nodes
from tensorfusion_iac.planning.inventory import Bools, Floats, Ints, Inventory
from tensorfusion_iac.planning.place import Chosen, best_node, choose_cards, node_scores


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a claim fits: cards `[node, card]`, nodes, and how much each node is wanted (0 to 1)."""

    cards: Bools
    nodes: Bools
    scores: Floats


@dataclass(slots=True)
class Allocator:
    """Answers for one inventory; keeps masks over its facts between questions."""

    inventory: Inventory
    masks: Masks = field(default_factory=Masks)

    def fit(self, claim: Claim, asker: Asker = ANYBODY) -> Fit:
        """Everywhere that the claim fits."""
        cards = fitting_cards(self.inventory, claim, asker, self.masks)
        return Fit(cards, fitting_nodes(cards, claim), node_scores(self.inventory, claim))

    def choose(self, claim: Claim, asker: Asker, fit: Fit, row: int) -> Chosen | None:
        """The cards on one node; None if the claim does not fit there."""
        return choose_cards(self.inventory, claim, asker, row, fit.cards[row].tolist())

    def allocate(self, claim: Claim, asker: Asker = ANYBODY, rows: Ints | None = None) -> Chosen | None:
        """The cards on the best node (among `rows`); None if it fits nowhere."""
        fit = self.fit(claim, asker)
        nodes = fit.nodes
        if rows is not None:
            allowed = np.zeros(nodes.shape, np.bool_)
            allowed[rows] = True
            nodes = nodes & allowed
        row = best_node(fit.scores, nodes)
        return None if row is None else self.choose(claim, asker, fit, row)
