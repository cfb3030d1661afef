"""The resize protocol under random orders of events: `desired`, `effective` and applied limits (SPEC §8).

A state machine over the pure functions: everything that is sent may come late, and writes may fail. The law: what agents hold
pods to, now and after whatever they have yet to read, never adds up to more than the card has. Requests are limits here, so that
a limit is room that a pod may really take.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from decimal import Decimal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from planning_values import GIB, TFLOPS, card, claim, inventory

from tensorfusion_iac.api import desired as desired_api
from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.effective import from_text
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.record import effective_text, reservation_of
from tensorfusion_iac.planning.resize import Applied, acknowledged, is_in_force, larger_held, resized, settled
from tensorfusion_iac.planning.shares import CardShare, Reservation, reserve

STEPS = int(os.environ.get("TENSORFUSION_STEPS", "2000"))
STEPS_PER_RUN = 50
CARD = card("GPU-0")  # 100 TFLOPS, 80 GiB
WORKER = WorkerSpec(Mode.LOCAL, "p", "w", QoS.HIGH, "", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",))
TFLOPS_WANTED, GIBS_WANTED = st.sampled_from([10, 70]), st.sampled_from([8, 56])


@dataclass
class Pod:
    """A pod on the server, and how far its agent is: `versions` of `effective`, and the index of the one that is applied."""

    versions: list[str]
    applied: int | None = None
    reported: int | None = None
    """What the agent has last told the server."""
    desired: str | None = None

    def limits(self, version: int) -> Applied:
        (found,) = from_text(self.versions[version]).cards
        return Applied(int(found.limits.tflops * TFLOPS), found.limits.vram_bytes)


class Protocol(RuleBasedStateMachine):
    """One card, a few pods, a scheduler that may lose what it knows, an agent that may be late."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Pod] = {}
        self.count = 0
        self.ledger = Ledger(inventory(CARD))

    # Pods.

    @rule(tflops=TFLOPS_WANTED, gib=GIBS_WANTED)
    @precondition(lambda self: len(self.pods) < 3)
    def bind(self, tflops: int, gib: int) -> None:
        self.count += 1
        uid = f"pod-{self.count}"
        made = reserve(claim(tflops=tflops, gib=gib, firm=True), ((CARD, None),), uid=uid, namespace="ns", name=uid, priority=0)
        (share,) = made.shares
        as_requested = {"limit_mflops": share.mflops, "limit_ppm": share.request_ppm, "limit_vram_bytes": share.vram_bytes}
        made = replace(made, shares=(replace(share, **as_requested),))
        place = self.ledger.inventory.place_of(CARD.uuid)
        free = int(self.ledger.inventory.free_mflops[place]), int(self.ledger.inventory.free_vram[place])
        if made.shares[0].mflops <= free[0] and made.shares[0].vram_bytes <= free[1]:
            self.ledger.adopt(made)
            self.pods[uid] = Pod([effective_text(made)])

    @rule(data=st.data())
    @precondition(lambda self: self.pods)
    def delete(self, data: st.DataObject) -> None:
        uid = self._some(data)
        del self.pods[uid]
        self.ledger.release(uid)

    # The controller.

    @rule(data=st.data(), tflops=st.none() | TFLOPS_WANTED, gib=GIBS_WANTED, looks=st.integers(0, 3))
    @precondition(lambda self: self.pods)
    def want(self, data: st.DataObject, tflops: int | None, gib: int, looks: int) -> None:
        """Other amounts are wanted, and the scheduler has looked so often before anything else happens."""
        uid, amount, vram = self._some(data), None if tflops is None else Decimal(tflops), gib * GIB
        self.pods[uid].desired = desired_api.to_text(Desired(amount, amount, vram, vram))
        for _ in range(looks):
            self._schedule(uid, "written")

    @rule(data=st.data(), gibs=st.lists(GIBS_WANTED, min_size=2, max_size=3), reads=st.booleans())
    @precondition(lambda self: self.pods)
    def change_its_mind(self, data: st.DataObject, gibs: list[int], reads: bool) -> None:
        """Several wishes one after the other, while the agent reads what was in force at first, or nothing."""
        uid = self._some(data)
        pod = self.pods[uid]
        if reads:
            pod.applied = pod.reported = len(pod.versions) - 1
        for gib in gibs:
            pod.desired = desired_api.to_text(Desired(None, None, gib * GIB, gib * GIB))
            for _ in range(2):
                self._schedule(uid, "written")

    # The agent.

    @rule(data=st.data(), tells=st.booleans())
    @precondition(lambda self: self.pods)
    def apply(self, data: st.DataObject, tells: bool) -> None:
        """The agent reads one version, or several at once, and holds the pod to it; it may tell of it later."""
        pod = self.pods[self._some(data)]
        pod.applied = data.draw(st.integers(pod.applied or 0, len(pod.versions) - 1))
        if tells:
            pod.reported = pod.applied

    @rule(data=st.data())
    @precondition(lambda self: self.pods)
    def report(self, data: st.DataObject) -> None:
        pod = self.pods[self._some(data)]
        pod.reported = pod.applied

    # The scheduler.

    @rule(data=st.data(), outcome=st.sampled_from(["written", "written", "lost", "unknown"]))
    @precondition(lambda self: self.pods)
    def schedule(self, data: st.DataObject, outcome: str) -> None:
        self._schedule(self._some(data), outcome)

    @rule()
    def restart_the_scheduler(self) -> None:
        """All that it knows is what the pods say."""
        self.ledger = Ledger(inventory(CARD))
        for uid, pod in self.pods.items():
            self.ledger.adopt(self._on_the_server(uid, pod))

    def _schedule(self, uid: str, outcome: str) -> None:
        pod, entry = self.pods[uid], self.ledger.get(uid)
        assert entry is not None
        applied = {} if pod.reported is None else {CARD.uuid: pod.limits(pod.reported)}
        freed = settled(entry.reservation, applied)
        if freed is not None and not self._write(uid, freed, outcome):
            return
        desired = None if pod.desired is None else desired_api.from_text(pod.desired)
        entry = self.ledger.get(uid)
        assert entry is not None
        if desired is None or is_in_force(entry.reservation.shares, desired):
            return
        if not acknowledged(entry.reservation, applied):
            return
        shares = resized(self.ledger, uid, desired)
        if not isinstance(shares, str):
            self._write(uid, shares, outcome)

    def _write(self, uid: str, shares: tuple[CardShare, ...], outcome: str) -> bool:
        """As the scheduler does: the books, then the annotation; taken back, or the larger of both, where it failed."""
        entry = self.ledger.get(uid)
        assert entry is not None
        before = entry.reservation
        self.ledger.resize(uid, shares)
        if outcome != "lost":
            self.pods[uid].versions.append(effective_text(replace(before, shares=shares)))
        if outcome == "written":
            return True
        if outcome == "lost":
            self.ledger.resize(uid, before.shares)
        else:
            both = tuple(
                larger_held(was, now) for now, was in zip(shares, before.shares, strict=True)
            )  # fmt: skip
            self.ledger.resize(uid, both)
        return False

    def _some(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.pods)))

    @staticmethod
    def _on_the_server(uid: str, pod: Pod) -> Reservation:
        return reservation_of(WORKER, pod.versions[-1], uid=uid, namespace="ns", name=uid, node="n0", priority=0)

    # The laws.

    @invariant()
    def what_agents_hold_pods_to_fits_the_card(self) -> None:
        """Whatever version each agent has applied, or may yet apply on its way to the newest."""
        worst = [
            [pod.limits(version) for version in range(pod.applied or 0, len(pod.versions))] for pod in self.pods.values()
        ]  # fmt: skip
        assert sum(max(one.vram_bytes for one in each) for each in worst) <= CARD.capacity_vram_bytes
        assert sum(max(one.mflops for one in each) for each in worst) <= CARD.capacity_mflops

    @invariant()
    def the_books_fit_the_card_and_cover_what_is_written(self) -> None:
        place = self.ledger.inventory.place_of(CARD.uuid)
        assert self.ledger.inventory.free_vram[place] >= 0
        assert self.ledger.inventory.free_mflops[place] >= 0
        for uid, pod in self.pods.items():
            entry, (written,) = self.ledger.get(uid), self._on_the_server(uid, pod).shares
            assert entry is not None
            (share,) = entry.reservation.shares
            assert share.held_vram_bytes >= written.vram_bytes
            assert share.held_mflops >= written.mflops

    def teardown(self) -> None:
        """Once all have caught up, nothing is held beyond the requests, and a wish that fits is in force."""
        self.restart_the_scheduler()
        for _ in range(4):
            for uid, pod in self.pods.items():
                pod.applied = pod.reported = len(pod.versions) - 1
                self._schedule(uid, "written")
                pod.applied = pod.reported = len(pod.versions) - 1
        for uid, pod in self.pods.items():
            self._schedule(uid, "written")
            entry = self.ledger.get(uid)
            assert entry is not None
            assert all(share.is_settled for share in entry.reservation.shares)
            desired = None if pod.desired is None else desired_api.from_text(pod.desired)
            if desired is not None and not is_in_force(entry.reservation.shares, desired):
                assert "lacks" in str(resized(self.ledger, uid, desired))


def test_a_resize_never_promises_more_than_the_card_has_whatever_comes_late_or_is_lost() -> None:
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=max(STEPS // STEPS_PER_RUN, 1),
            stateful_step_count=STEPS_PER_RUN,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_old_word_of_the_agent_does_not_free_the_room_of_a_limit_that_it_has_yet_to_read() -> None:
    cluster = Protocol()
    Protocol.bind(cluster, 10, 8)
    pod = cluster.pods["pod-1"]
    pod.applied = pod.reported = 0
    for gib in (56, 8):
        pod.desired = desired_api.to_text(Desired(None, None, gib * GIB, gib * GIB))
        for _ in range(2):
            cluster._schedule("pod-1", "written")
    Protocol.bind(cluster, 10, 56)
    Protocol.what_agents_hold_pods_to_fits_the_card(cluster)
    assert pod.limits(len(pod.versions) - 1).vram_bytes == 56 * GIB, "the shrink waits for the agent's word of the grow"
    pod.applied = pod.reported = 1
    cluster._schedule("pod-1", "written")
    assert pod.limits(len(pod.versions) - 1).vram_bytes == 8 * GIB
