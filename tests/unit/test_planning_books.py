"""The books balance: a state machine of everything that happens to a cluster, against a recount from scratch (R1).

TENSORFUSION_STEPS sets how many steps are run in all (`make test`: some thousands; CI's long mode: 100,000).
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from planning_values import GIB, TFLOPS, card, claim

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.cards import NodeFacts
from tensorfusion_iac.planning.charge import Ceiling, Charge, Quota, charge
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.inventory import Inventory, PoolFacts
from tensorfusion_iac.planning.ledger import Ledger, State
from tensorfusion_iac.planning.shares import CardShare, Reservation, reserve

STEPS = int(os.environ.get("TENSORFUSION_STEPS", "4000"))
STEPS_PER_RUN = 50

NODES = ("n0", "n1")
CARDS = tuple(f"{node}-{index}" for node in NODES for index in range(3))
NAMESPACES = ("a", "b")
QUOTAS = (None, Quota("q", Ceiling(request_vram_bytes=100 * GIB, workers=6)), Quota("q", Ceiling(limit_mflops=400 * TFLOPS)))

claims = st.one_of(
    st.builds(
        claim,
        tflops=st.sampled_from([1, 25, 60, 100]),
        gib=st.sampled_from([0, 1, 8, 40]),
        count=st.sampled_from([1, 1, 2]),
        isolation=st.sampled_from([Isolation.SOFT, Isolation.HARD, Isolation.SHARED]),
        firm=st.booleans(),
    ),
    st.builds(claim, percent=st.sampled_from([0.01, 33.3333, 50, 100]), gib=st.sampled_from([0, 20]), firm=st.booleans()),
    st.builds(claim, gib=st.sampled_from([5, 10, 20, 40]), isolation=st.just(Isolation.PARTITIONED)),
    st.builds(claim, whole_card=st.just(True), count=st.sampled_from([1, 2])),
)


class Books(RuleBasedStateMachine):
    """Pods come, are bound, resized, fail and go; cards, nodes, pools and quotas change; time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory = Inventory(nodes=1, cards=1)
        self.ledger = Ledger(self.inventory)
        self.allocator = Allocator(self.inventory)
        self.inventory.set_pool("p", PoolFacts())
        self.now, self.pods = 0.0, 0
        self.model: dict[str, Reservation] = {}
        """What must be in the books."""
        self.shrunk: set[str] = set()
        """Cards that may be over their capacity: it shrank, or the oversell did, or a pod was found bound there."""
        for uuid in CARDS:
            self.inventory.set_node(uuid[:2], NodeFacts("p"))
            self.inventory.set_card(card(uuid, uuid[:2], numa_node=0))

    @rule(wanted=claims, namespace=st.sampled_from(NAMESPACES), life=st.sampled_from([1.0, 5.0]))
    def hold(self, wanted: Claim, namespace: str, life: float) -> None:
        asker = Asker(budget=self.ledger.budget(namespace))
        chosen = self.allocator.allocate(wanted, asker)
        if chosen is None:
            return
        self.pods += 1
        made = reserve(wanted, chosen, uid=f"u{self.pods}", namespace=namespace, name="pod", priority=0)
        assert asker.budget.allows(made.shares)
        self.ledger.hold(made, self.now + life)
        self.model[made.uid] = made

    def _some(self, data: st.DataObject, *states: State) -> str | None:
        uids = sorted(entry.reservation.uid for entry in self.ledger if entry.state in states)
        return data.draw(st.sampled_from(uids)) if uids else None

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """The node that kube-scheduler chose is another one than the hold's: a hold moves, or stays if it cannot."""
        uid = self._some(data, State.HELD)
        if uid is None:
            return
        before = self.model[uid]
        self.ledger.release(uid)
        wanted = claim(gib=1, isolation=before.isolation)
        chosen = self.allocator.allocate(wanted)
        after = before
        if chosen is not None:
            after = reserve(wanted, chosen, uid=uid, namespace=before.namespace, name=before.name, priority=0)
        self.ledger.hold(after, self.now + 5)
        self.model[uid] = after

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        if (uid := self._some(data, State.HELD)) is not None:
            self.ledger.commit(uid, self.now + 30)

    @rule(data=st.data(), twice=st.booleans())
    def show(self, data: st.DataObject, twice: bool) -> None:
        """The watch shows a pod bound as we bound it, perhaps more than once."""
        if (uid := self._some(data, State.COMMITTED, State.CONFIRMED)) is not None:
            for _ in range(1 + twice):
                self.ledger.adopt(self.model[uid])

    @rule(data=st.data(), twice=st.booleans())
    def release(self, data: st.DataObject, twice: bool) -> None:
        uid = self._some(data, *State)
        if uid is not None:
            assert self.ledger.release(uid) == self.model.pop(uid)
            if twice:
                assert self.ledger.release(uid) is None

    @rule(data=st.data(), uuid=st.sampled_from(CARDS), gib=st.sampled_from([1, 60]), known=st.booleans())
    def find_bound(self, data: st.DataObject, uuid: str, gib: int, known: bool) -> None:
        """A pod turns up bound, on a card that need not have room, perhaps one that is booked elsewhere: it is what it is."""
        self.pods += 1
        uid = (self._some(data, *State) if known else None) or f"u{self.pods}"
        share = CardShare(uuid, TFLOPS, gib * GIB, TFLOPS, gib * GIB, 1, 1, TFLOPS, gib * GIB)
        found = Reservation(uid, "a", "found", uuid[:2], Isolation.SOFT, True, False, (share,))
        self.ledger.adopt(found)
        self.model[found.uid] = found
        self.shrunk.add(uuid)

    @rule(data=st.data(), gib=st.sampled_from([1, 8, 40]))
    def resize(self, data: st.DataObject, gib: int) -> None:
        uid = self._some(data, State.CONFIRMED)
        if uid is None or any(share.slot for share in self.model[uid].shares):
            return
        before = self.model[uid]
        shares = {}
        for share in before.shares:
            held = max(share.vram_bytes, gib * GIB)
            shares[share.uuid] = CardShare(
                share.uuid, share.mflops, gib * GIB, share.limit_mflops, gib * GIB, share.request_ppm, share.limit_ppm,
                share.held_mflops, held,
            )  # fmt: skip
        if self.ledger.fits(shares, uid) is None:
            self.ledger.resize(uid, tuple(shares.values()))
            self._remember(uid)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """The agent has applied the lower limits of a shrink."""
        if (uid := self._some(data, State.CONFIRMED)) is not None:
            self.ledger.resize(uid, tuple(share.settled() for share in self.model[uid].shares))
            self._remember(uid)

    def _remember(self, uid: str) -> None:
        entry = self.ledger.get(uid)
        assert entry is not None
        self.model[uid] = entry.reservation

    @rule(seconds=st.sampled_from([0.5, 10.0, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for entry in self.ledger.overdue(self.now):
            assert entry.state is not State.CONFIRMED
            self.ledger.release(entry.reservation.uid)
            del self.model[entry.reservation.uid]

    @rule(uuid=st.sampled_from(CARDS))
    def lose_card(self, uuid: str) -> None:
        self.inventory.drop_card(uuid)

    @rule(uuid=st.sampled_from(CARDS), gib=st.sampled_from([24, 80]), healthy=st.booleans())
    def change_card(self, uuid: str, gib: int, healthy: bool) -> None:
        self.inventory.set_card(card(uuid, uuid[:2], gib=gib, healthy=healthy, numa_node=0))
        self.shrunk.add(uuid)

    @rule(uuid=st.sampled_from(CARDS), node=st.sampled_from(NODES))
    @precondition(lambda self: not self.model)
    def move_card(self, uuid: str, node: str) -> None:
        self.inventory.set_card(card(uuid, node, numa_node=0))

    @rule(node=st.sampled_from(NODES), facts=st.sampled_from([None, NodeFacts("p"), NodeFacts("p", live=False), NodeFacts()]))
    def change_node(self, node: str, facts: NodeFacts | None) -> None:
        if facts is None:
            self.inventory.drop_node(node)
        else:
            self.inventory.set_node(node, facts)

    @rule(percent=st.sampled_from([100, 250]))
    def change_oversell(self, percent: int) -> None:
        self.inventory.set_pool("p", PoolFacts(percent))
        if percent == 100:
            self.shrunk.update(CARDS)

    @rule(namespace=st.sampled_from(NAMESPACES), quota=st.sampled_from(QUOTAS))
    def change_quota(self, namespace: str, quota: Quota | None) -> None:
        self.ledger.set_quota(namespace, quota)

    @invariant()
    def the_books_hold_exactly_what_was_reserved(self) -> None:
        assert {entry.reservation.uid: entry.reservation for entry in self.ledger} == self.model

    @invariant()
    def every_card_is_charged_the_sum_of_its_holders(self) -> None:
        for facts in self.inventory.cards():
            place = self.inventory.place_of(facts.uuid)
            assert place is not None
            held = [(made, share) for made in self.model.values() for share in made.shares if share.uuid == facts.uuid]
            percent = self.inventory.pool_facts(self.inventory.node_facts(facts.node).pool).oversell_percent
            mflops = sum(share.held_mflops for _, share in held)
            firm = sum(share.held_mflops for made, share in held if made.firm)
            vram = sum(share.held_vram_bytes for _, share in held)
            assert self.inventory.free_mflops[place] == facts.capacity_mflops * percent // 100 - mflops
            assert self.inventory.free_firm_mflops[place] == facts.capacity_mflops - firm
            assert self.inventory.free_vram[place] == facts.capacity_vram_bytes - vram
            assert self.inventory.workers[place] == len(held)
            assert 0 <= self.inventory.used[place] <= 1

    @invariant()
    def no_card_is_promised_beyond_what_it_has(self) -> None:
        for facts in self.inventory.cards():
            if facts.uuid in self.shrunk:
                continue
            place = self.inventory.place_of(facts.uuid)
            assert self.inventory.free_mflops[place] >= 0
            assert self.inventory.free_firm_mflops[place] >= 0
            assert self.inventory.free_vram[place] >= 0

    @invariant()
    def a_card_serves_one_kind_and_no_slot_twice(self) -> None:
        for uuid in set(CARDS) - self.shrunk:
            held = [(made, share) for made in self.model.values() for share in made.shares if share.uuid == uuid]
            assert len({made.isolation for made, _ in held}) <= 1
            assert not any(made.exclusive for made, _ in held) or len(held) == 1
            slots = Counter(at for _, s in held if s.slot for at in range(s.slot.start, s.slot.start + s.slot.size))
            assert all(count == 1 for count in slots.values())

    @invariant()
    def quotas_count_exactly(self) -> None:
        for namespace in NAMESPACES:
            used = Charge()
            for made in self.model.values():
                if made.namespace == namespace:
                    used = used.plus(charge(made))
            assert self.ledger.used(namespace) == used

    @invariant()
    def what_is_not_there_takes_nothing(self) -> None:
        there = {facts.uuid for facts in self.inventory.cards()}
        assert int(np.count_nonzero(self.inventory.present)) == len(there)
        assert int(self.inventory.cards_on.sum()) == len(there)

    def teardown(self) -> None:
        for uid in list(self.model):
            self.ledger.release(uid)
        for facts in self.inventory.cards():
            place = self.inventory.place_of(facts.uuid)
            assert self.inventory.free_vram[place] == facts.capacity_vram_bytes
            assert self.inventory.isolation[place] == 0
        assert all(self.ledger.used(namespace) == Charge() for namespace in NAMESPACES)


def test_the_books_balance_whatever_happens() -> None:
    run_state_machine_as_test(
        Books,
        settings=settings(
            max_examples=max(STEPS // STEPS_PER_RUN, 1),
            stateful_step_count=STEPS_PER_RUN,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
