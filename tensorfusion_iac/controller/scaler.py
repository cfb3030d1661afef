"""Autoscaling at work: learns what workloads use, recommends in their status, and asks for amounts by `desired` (SPEC §8).

One round each half minute, as that is how the agents count; a workload's use decides anew only after its own `interval`, while
cron rules, external scalers and edited profiles are followed in every round. The scheduler decides whether what is asked for
comes into force. A pod whose amounts are near enough, and a status that says the same, cost no write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from tensorfusion_iac.api.desired import to_text
from tensorfusion_iac.api.resources import TensorFusionWorkload
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig, AutoSetResources
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.controller.checkpoints import Checkpoints
from tensorfusion_iac.controller.conditions import Wanted as Condition
from tensorfusion_iac.controller.conditions import merged
from tensorfusion_iac.controller.external import Asked, ExternalScalers
from tensorfusion_iac.controller.external_answer import Heard
from tensorfusion_iac.controller.fleetview import FleetView
from tensorfusion_iac.controller.patches import changed
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.pods import DESIRED, Member
from tensorfusion_iac.controller.profiles import as_edited
from tensorfusion_iac.controller.quota_keeper import QuotaKeeper
from tensorfusion_iac.controller.scaling import Look, Memory, Row, blank, learned, looked, with_policy
from tensorfusion_iac.controller.usage import Usage
from tensorfusion_iac.controller.wanting import (
    Subject,
    Wanted,
    current_of,
    desired_of,
    fixed_because,
    in_status,
    original_of,
    want,
)
from tensorfusion_iac.controller.writing import NotHolderError, Writer
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.informer import Informer
from tensorfusion_iac.kube.resource import PODS, TENSOR_FUSION_WORKLOADS
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.charge import Charge, Quota, charge_of
from tensorfusion_iac.planning.recommend import Amounts, Ceiling, Side, policy_of
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.planning.units import MFLOPS_PER_TFLOPS

log = logging.getLogger(__name__)

ROUND_S = 30.0
PROFILE_APPLIED = "ProfileApplied"


@dataclass(slots=True)
class Scaler:
    """Scales all workloads that ask for it."""

    writer: Writer
    usage: Usage
    checkpoints: Checkpoints
    fleet: FleetView
    pods: PodIndex
    stored: Informer
    pod_objects: Informer
    quotas: QuotaKeeper
    profiles: Informer
    external: ExternalScalers
    round_s: float = ROUND_S
    wall: Callable[[], float] = time.time
    _memories: dict[str, Memory] = field(default_factory=dict)
    _looks: dict[str, Look] = field(default_factory=dict)

    def attach(self) -> None:
        """Nothing to listen to: it goes by the clock."""

    async def run(self) -> None:
        """Scale, until cancelled."""
        try:
            await self._rounds()
        finally:
            await self.external.close()

    async def _rounds(self) -> None:
        loaded = False
        while True:
            try:
                if not loaded:
                    self._memories, self._looks, loaded = await self.checkpoints.load(), {}, True
                    self.usage.forget()
                await self._round()
            except NotHolderError:
                pass
            except KubeError as error:
                log.warning("autoscaling: %s", error)
            except Exception:  # a strange object must not end it for all time
                log.exception("autoscaling: a round failed")
            await asyncio.sleep(self.round_s)

    async def _round(self) -> None:
        now_s = self.wall()
        scaled = [
            (item, config or AutoScalingConfig())
            for item in self.stored
            if (config := _config(item)) is not None or self._edited(item)
        ]
        rows = await self.usage.ask(self.fleet.agents, now_s) if scaled else []
        by_pod: dict[str, list[Row]] = {}
        for row in rows:
            by_pod.setdefault(row.pod_uid, []).append(row)
        every = {item["metadata"]["uid"] for item, _ in scaled}
        for item in [one for one in self.stored if (one.get("status") or {}).get("recommendation")]:
            if item["metadata"]["uid"] not in every:
                await self._forget(item)
        for item, config in scaled:
            try:
                await self._scale(item, config, by_pod, now_s)
            except NotHolderError:
                raise
            except KubeError as error:
                log.warning("workload %s/%s: %s", item["metadata"]["namespace"], item["metadata"]["name"], error)
        uids = {item["metadata"]["uid"] for item, config in scaled if _learns(config)}
        self._memories = {uid: memory for uid, memory in self._memories.items() if uid in uids}
        self._looks = {uid: look for uid, look in self._looks.items() if uid in uids}
        await self.checkpoints.keep_only(uids)
        self.external.keep_only({item["metadata"]["uid"] for item, config in scaled if _asks(config)})

    async def _scale(self, item: Object, config: AutoScalingConfig, rows: Mapping[str, list[Row]], now_s: float) -> None:
        uid, key = item["metadata"]["uid"], (item["metadata"]["namespace"], item["metadata"]["name"])
        members = [member for member in self.pods.members(key) if member.live and member.is_worker and member.node]
        held = {one.uid: found for one in members if (found := self.pods.reservation((one.namespace, one.name))) is not None}
        cards = {
            share.uuid: card for one in held.values() for share in one.shares if (card := self._card(share.uuid)) is not None
        }
        auto = config.auto_set_resources or AutoSetResources()
        policy = policy_of(auto)
        memory = with_policy(self._memories.get(uid) or blank(policy), policy)
        mine = [row for one in held for row in rows.get(one, ())]
        if _learns(config):
            capacities = {uuid: card.capacity_mflops for uuid, card in cards.items()}
            memory = self._memories[uid] = learned(memory, mine, capacities, held.keys(), now_s)
            if not memory.compute.empty:
                await self.checkpoints.save(uid, memory)
        if not members or not cards:
            return
        newest = max(members, key=lambda one: (one.created, one.uid))
        smallest = min(cards.values(), key=lambda card: (card.capacity_mflops, card.capacity_vram_bytes))
        ceiling = _ceiling(cards.values(), held.values(), self.quotas.quota(key[0]), self.quotas.used(key[0]))
        worker, profile = self._as_asked(newest)
        edited = profile if self._edited(item) else ""
        current = current_of(held[newest.uid].shares) if newest.uid in held else Amounts()
        tflops = smallest.capacity_mflops / MFLOPS_PER_TFLOPS
        subject = Subject(config, policy, worker, original_of(worker, smallest), ceiling, edited, tflops, current)
        look = self._looks[uid] = looked(self._looks.get(uid), memory, auto, now_s)
        used = max((row.vram_bytes for row in _latest(mine)), default=0)
        heard = self._heard(item, config, current)
        wanted = want(subject, with_policy(look.memory, policy), float(used), datetime.fromtimestamp(now_s, UTC), heard)
        applied = await self._ask_for(subject, wanted, members, held)
        await self._tell(item, subject, wanted, applied)

    def _heard(self, item: Object, config: AutoScalingConfig, current: Amounts) -> Heard | None:
        scaler, metadata = config.external_scaler, item["metadata"]
        if scaler is None or not scaler.enable:
            return None
        return self.external.heard(
            Asked(
                metadata["uid"], metadata["namespace"], metadata["name"], metadata["creationTimestamp"], scaler,
                in_status(current),
            )
        )  # fmt: skip

    async def _ask_for(
        self, subject: Subject, wanted: Wanted, members: Iterable[Member], held: Mapping[str, Reservation]
    ) -> bool:
        """Write `desired` where it differs; whether all pods have what is wanted."""
        if wanted.amounts is None or fixed_because(subject.worker):
            return False
        applied = True
        for member in members:
            reservation, pod = held.get(member.uid), self.pod_objects.get(member.name, member.namespace)
            if reservation is None or pod is None:
                continue
            desired = desired_of(wanted.amounts, reservation.shares, subject)
            if desired is None:
                continue
            applied, text = False, to_text(desired)
            if pod["metadata"]["annotations"].get(DESIRED) != text:
                await self.writer.merge(PODS, pod, {"metadata": {"annotations": {DESIRED: text}}})
        return applied

    async def _forget(self, item: Object) -> None:
        """Nothing is recommended any more."""
        conditions = merged((item.get("status") or {}).get("conditions") or (), (), "", dropped={PROFILE_APPLIED})
        status = {"recommendation": None, "activeCronScalingRule": None, "conditions": conditions}
        await self.writer.merge(TENSOR_FUSION_WORKLOADS, item, {"status": status}, "status")

    async def _tell(self, item: Object, subject: Subject, wanted: Wanted, applied: bool) -> None:
        before = item.get("status") or {}
        resources = {} if wanted.amounts is None else in_status(wanted.amounts)
        recommendation = {"resources": resources, "reason": wanted.reason, "applied": applied}
        conditions = []
        if subject.edited:
            text = f"the amounts of profile {subject.edited} are {'in force' if applied else 'not in force in all pods yet'}"
            conditions = [Condition(PROFILE_APPLIED, applied, "Applied" if applied else "Waiting", text)]
        now = datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        dropped = set() if conditions else {PROFILE_APPLIED}
        status = {
            "activeCronScalingRule": wanted.rule,
            "recommendation": recommendation,
            "conditions": merged(before.get("conditions") or (), conditions, now, dropped=dropped),
        }
        difference = changed(before, status)
        if difference:
            await self.writer.merge(TENSOR_FUSION_WORKLOADS, item, {"status": difference}, "status")

    def _edited(self, item: Object) -> bool:
        """Whether a pod of the workload was resolved with another edition of its profile than there is now."""
        key = (item["metadata"]["namespace"], item["metadata"]["name"])
        return any(
            member.worker.profile.generation != profile["metadata"].get("generation")
            for member in self.pods.members(key)
            if member.live and member.node and member.worker.profile is not None
            if (profile := self.profiles.get(member.worker.profile.name, member.namespace)) is not None
        )

    def _as_asked(self, member: Member) -> tuple[WorkerSpec, str]:
        """What a pod asks for by its annotations and its profile as it is now, and the profile's name."""
        reference = member.worker.profile
        profile = None if reference is None else self.profiles.get(reference.name, member.namespace)
        if reference is None or profile is None:
            return member.worker, ""
        return as_edited(member.worker, member.sources, profile.get("spec") or {}), reference.name

    def _card(self, uuid: str) -> CardFacts | None:
        return self.fleet.cards.get(uuid.lower())


def _config(item: Object) -> AutoScalingConfig | None:
    """The settings of a workload that wants autoscaling; None if it doesn't, or they can't be read."""
    if not (item.get("spec") or {}).get("autoScalingConfig"):
        return None
    try:
        config = TensorFusionWorkload.model_validate({"spec": {"autoScalingConfig": item["spec"]["autoScalingConfig"]}})
    except ValidationError as error:
        log.warning("workload %s/%s: autoScalingConfig: %s", item["metadata"]["namespace"], item["metadata"]["name"], error)
        return None
    found = config.spec.auto_scaling_config
    return found if found is not None and (_learns(found) or found.cron_scaling_rules or _asks(found)) else None


def _asks(config: AutoScalingConfig) -> bool:
    return config.external_scaler is not None and config.external_scaler.enable


def _learns(config: AutoScalingConfig) -> bool:
    return config.auto_set_resources is not None and config.auto_set_resources.enable


def _latest(rows: Iterable[Row]) -> list[Row]:
    """The newest row of each pod and card."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        known = found.get((row.pod_uid, row.gpu))
        if known is None or known.begin_s < row.begin_s:
            found[row.pod_uid, row.gpu] = row
    return list(found.values())


def _ceiling(cards: Iterable[CardFacts], held: Iterable[Reservation], quota: Quota | None, used: Charge) -> Ceiling:
    """The smallest card, and what the quota leaves each GPU of the workload beside all others of the namespace."""
    found, mine = list(cards), list(held)
    mflops, vram = min(card.capacity_mflops for card in found), min(card.capacity_vram_bytes for card in found)
    most = [float(mflops), float(vram), float(mflops), float(vram)]  # requests, then limits
    if quota is not None:
        own = Charge()
        for reservation in mine:
            own = own.plus(charge_of(reservation.shares))
        gpus = max(sum(len(reservation.shares) for reservation in mine), 1)
        left, single = quota.total.less(used.minus(own)), quota.single
        bounds = (
            (left.request_mflops, single.request_mflops), (left.request_vram_bytes, single.request_vram_bytes),
            (left.limit_mflops, single.limit_mflops), (left.limit_vram_bytes, single.limit_vram_bytes),
        )  # fmt: skip
        for index, (total, one) in enumerate(bounds):
            if total is not None:
                most[index] = min(most[index], max(total, 0) / gpus)
            if one is not None:
                most[index] = min(most[index], float(one))
    compute = Side(most[0] / MFLOPS_PER_TFLOPS, most[2] / MFLOPS_PER_TFLOPS)
    return Ceiling(compute, Side(most[1], most[3]))
