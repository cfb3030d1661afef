"""The agent's program: one node's pods, cards and cgroups brought together (ENFORCEMENT.md).

Enforcement is in threads that never wait for the API server; around them, in asyncio, are the watches, the slower rounds
(memory limits, MPS, partitions, health), the reports and the heartbeat. Without the API server it holds what it last knew.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorfusion_iac._version import __version__
from tensorfusion_iac.agent import objects, partitions, server
from tensorfusion_iac.agent.capabilities import (
    CardCapabilities,
    Injection,
    card_capabilities,
    describe_cgroups,
    injection,
    plugin_cards,
    read_toolkit_config,
)  # fmt: skip
from tensorfusion_iac.agent.cgroups import MOUNT, Cgroups
from tensorfusion_iac.agent.cluster_view import ClusterView
from tensorfusion_iac.agent.driver import Card, Driver, DriverError
from tensorfusion_iac.agent.enforcer import Enforcer, EnforcerThread
from tensorfusion_iac.agent.freezer import dissolve
from tensorfusion_iac.agent.health import Health, State, after_probe, after_xid
from tensorfusion_iac.agent.history import UsageHistory
from tensorfusion_iac.agent.lifeline import LIFELINE, Lifeline
from tensorfusion_iac.agent.memory_limits import RECORD, MemoryLimits
from tensorfusion_iac.agent.metrics import AgentMetrics, Snapshot
from tensorfusion_iac.agent.mps import Mps
from tensorfusion_iac.agent.notices import Notices
from tensorfusion_iac.agent.partitions import Partitioned
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.agent.processes import ProcessTable
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.agent.reporting import Reporter
from tensorfusion_iac.api.names import AGENT_METRICS_PORT, MPS_DIRECTORY
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import GPU_NODES, GPUS, LEASES

log = logging.getLogger(__name__)

ROUND_S, PROBE_S, PARTITIONS_S, INJECTION_S = 0.5, 5.0, 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the agent runs, and where things are on its node."""

    node: str
    address: str = "127.0.0.1"
    listen: str = ""
    metrics_port: int = AGENT_METRICS_PORT
    history_port: int = 9461
    cgroups: Path = MOUNT
    lifeline: Path = LIFELINE
    record: Path = RECORD
    mps: Path = Path(MPS_DIRECTORY)
    toolkit_config: Path = Path("/etc/nvidia-container-runtime/config.toml")


@dataclass(slots=True)
class _Now:
    """What the slow rounds found, last."""

    health: dict[str, Health] = field(default_factory=dict)
    partitioned: dict[str, Partitioned] = field(default_factory=dict)
    followed: dict[str, tuple[tuple[partitions.Wanted, ...], float]] = field(default_factory=dict)
    capabilities: dict[str, CardCapabilities] = field(default_factory=dict)
    used_bytes: dict[str, int] = field(default_factory=dict)
    injection_s: float = float("-inf")
    injection: Injection = field(default_factory=lambda: Injection("none", "not probed yet"))


async def run(
    client: Client, driver: Driver, settings: Settings, on_ready: Callable[[int, int], None] = lambda metrics, history: None
) -> None:
    """Serve until the process is asked to end; then let everything run. `client` is entered here."""
    async with client:
        await until_told_to_stop(Agent(client, driver, settings).run(on_ready))


async def until_told_to_stop(work: Coroutine[Any, Any, None]) -> None:
    """Do the work until SIGTERM or SIGINT, then cancel it and wait for its end. Its failures are raised."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        task, asked = asyncio.create_task(work), asyncio.create_task(stop.wait())
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Agent:
    """One node's agent. `run` goes on until it is cancelled, and lets everything run at the end."""

    def __init__(self, client: Client, driver: Driver, settings: Settings) -> None:
        self.settings, self.driver = settings, driver
        self.history, self.metrics = UsageHistory(), AgentMetrics()
        self.reporter = Reporter(client)
        self._soon = asyncio.Event()
        self._client = client
        self._cgroups = Cgroups(settings.cgroups)
        self._limits = MemoryLimits(driver, self._cgroups, settings.record)
        self._mps = Mps(driver, settings.mps)
        self.view = ClusterView(settings.node)
        self.view.on_change = self._soon.set
        self.view.on_gone = lambda name: self.reporter.lost(GPUS, name)
        self._now = _Now()
        self._notices = Notices(client, settings.node)
        self._ended = threading.Event()
        self._told: object = None
        self._enforced: Mapping[tuple[str, str], str] = {}
        self._lease_annotations: dict[str, str] = {}

    async def run(self, on_ready: Callable[[int, int], None] = lambda metrics, history: None) -> None:
        """Serve until cancelled. Raises AnotherAgentError, OSError (a port is taken) before anything is touched."""
        async with AsyncExitStack() as stack:
            lifeline = Lifeline(self.settings.lifeline)
            stack.callback(lifeline.close)
            self._undo_earlier()
            ports = await self._serve(stack)
            pulser = Pulser(lifeline.beat)
            enforcer = Enforcer(self.driver, ProcessTable(self._cgroups), pulser, notice=self._notices.take)
            self.view.on_pods = lambda pods: self._take_pods(enforcer, pods)
            rounds = EnforcerThread(enforcer)
            events = threading.Thread(target=self._wait_for_xids, args=(asyncio.get_running_loop(),), name="xids", daemon=True)
            stack.callback(self._end, rounds, pulser, events)
            for thread in (pulser, rounds, events):
                thread.start()
            on_ready(*ports)
            async with asyncio.TaskGroup() as tasks:
                informers = self.view.informers(self._client)
                for informer in informers:
                    tasks.create_task(informer.run())
                tasks.create_task(self._rounds(enforcer))
                tasks.create_task(self._probe(enforcer, informers[-1].synced))
                tasks.create_task(self._notices.run())
                tasks.create_task(self._beat())
                tasks.create_task(self.reporter.run())

    def _end(self, rounds: EnforcerThread, pulser: Pulser, events: threading.Thread) -> None:
        self._ended.set()
        rounds.end()
        pulser.end()
        self._limits.clear_all()
        events.join(timeout=2)

    def _undo_earlier(self) -> None:
        """Thaw what an earlier agent left frozen, wherever it is."""
        for path, version in list(self._cgroups.duty_directories()):
            dissolve(path, version)

    async def _serve(self, stack: AsyncExitStack) -> tuple[int, int]:
        from tensorfusion_iac.agent.certificate import server_context  # heavy, and needed once

        listen = self.settings.listen or self.settings.address
        tls, pem = server_context(self.settings.node, self.settings.address)
        app = server.history_app(lambda _: self.history, server.Gatekeeper(self._client))
        history = await stack.enter_async_context(server.served(app, listen, self.settings.history_port, tls))
        metrics = await stack.enter_async_context(
            server.served(server.metrics_app(self.metrics), listen, self.settings.metrics_port)
        )
        host = f"[{self.settings.address}]" if ":" in self.settings.address else self.settings.address
        self._lease_annotations = {
            objects.ENDPOINT: f"https://{host}:{history}{server.HISTORY_PATH}",
            objects.CERTIFICATE: base64.b64encode(pem.encode()).decode(),
        }
        return metrics, history

    def _take_pods(self, enforcer: Enforcer, pods: Mapping[str, NodePod]) -> None:
        enforcer.pods = pods
        self.history.forget(set(pods))

    async def _rounds(self, enforcer: Enforcer) -> None:
        """The slow rounds: half a second apart, or at once when something changed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUND_S):
                    await self._soon.wait()
            self._soon.clear()
            pods = dict(enforcer.pods)
            try:
                await asyncio.to_thread(self._hold, pods)
            except Exception:  # one strange answer must not end the care for all others
                log.exception("a slow round failed")
            self._tell(enforcer, pods)

    def _hold(self, pods: Mapping[str, NodePod]) -> None:
        """What may take long: files, the driver, the MPS daemon."""
        self._limits.keep(pods)
        self._mps.keep(pods)
        for card in self.driver.cards():
            with suppress(DriverError):
                self._now.used_bytes[card.uuid] = self.driver.used_bytes(card.uuid)
            if not card.can_partition:
                continue
            wanted = self.view.wanted.get(objects.gpu_name(card.uuid))
            if wanted or (wanted is not None and card.partitioned):
                self._partition(card.uuid, wanted)
        if not self._now.capabilities:
            log.info("cgroups: %s; driver %s", describe_cgroups(self._cgroups), self.driver.version)
        for card in self.driver.cards():
            if card.uuid not in self._now.capabilities or self._now.capabilities[card.uuid].driver_version != self.driver.version:
                self._now.capabilities[card.uuid] = card_capabilities(
                    self.driver, card, self._cgroups, has_mps=self._mps.available
                )
        if time.monotonic() - self._now.injection_s > INJECTION_S:
            self._now.injection = injection(read_toolkit_config(self.settings.toolkit_config), self.view.node)
            self._now.injection_s = time.monotonic() if self.view.node is not None else float("-inf")

    def _partition(self, card: str, wanted: tuple[partitions.Wanted, ...]) -> None:
        """Follow the wish at once when it changes or was not met; else look now and then, which costs many calls."""
        known, looked_s = self._now.followed.get(card, (None, 0.0))
        met = card in self._now.partitioned and not self._now.partitioned[card].message
        if known == wanted and met and time.monotonic() - looked_s < PARTITIONS_S:
            return
        self._now.partitioned[card] = partitions.follow(self.driver, card, wanted)
        self._now.followed[card] = (wanted, time.monotonic())

    def _tell(self, enforcer: Enforcer, pods: Mapping[str, NodePod]) -> None:
        """Metrics and history; and the objects, if anything that they tell has changed."""
        seen, cards, now = enforcer.seen, tuple(self.driver.cards()), self._now
        self.history.add(seen.containers, time.time())
        held = objects.Held(dict(self._limits.applied), seen.unreachable, self._mps.served)
        used_by = {card.uuid: self._used_by(card, seen.foreign) for card in cards}
        told = (
            self.view.node_uid, cards, pods, held, used_by, dict(now.health), dict(now.partitioned), dict(now.capabilities),
            now.injection,
        )  # fmt: skip
        if told != self._told:
            self._told = told
            self._enforced = self._report(cards, pods, held, used_by)
        nodes = {card.uuid: self.settings.node for card in cards}
        self.metrics.snapshot = Snapshot(cards, dict(now.health), dict(now.used_bytes), pods, self._enforced, seen, nodes)

    def _report(
        self, cards: Sequence[Card], pods: Mapping[str, NodePod], held: objects.Held, used_by: Mapping[str, str]
    ) -> dict[tuple[str, str], str]:
        """Say what the objects should be. Returns by what each pod is held on each card."""
        node, uid, now = self.settings.node, self.view.node_uid, self._now
        enforced: dict[tuple[str, str], str] = {}
        for card in cards:
            capabilities = now.capabilities.get(card.uuid)
            if capabilities is None:
                continue
            status = objects.gpu_status(
                card, node, health=now.health.get(card.uuid, Health()), used_by=used_by[card.uuid], capabilities=capabilities,
                partitioned=now.partitioned.get(card.uuid, Partitioned()), pods=pods, held=held,
            )  # fmt: skip
            enforced |= {(row["uid"], card.uuid): row["enforcedBy"] for row in status["pods"]}
            if uid:
                self.reporter.want(GPUS, objects.gpu_metadata(card, node, uid), status)
        if uid:
            status = objects.gpu_node_status(cards, used_by, now.injection, __version__, describe_cgroups(self._cgroups))
            self.reporter.want(GPU_NODES, objects.gpu_node_metadata(node, uid), status)
        return enforced

    def _used_by(self, card: Card, foreign: frozenset[str]) -> str:
        if plugin_cards(self.view.node) > 0:
            return "nvidia-device-plugin"
        return "foreign" if card.uuid in foreign else "tensor-fusion"

    async def _probe(self, enforcer: Enforcer, gpus_known: asyncio.Event) -> None:
        """Ask each card how it is, each five seconds; start the library anew while one is lost."""
        with suppress(TimeoutError):  # what an earlier agent found counts, if the API server can tell it
            async with asyncio.timeout(PROBE_S):  # wait_for may lose a cancel before Python 3.12
                await gpus_known.wait()
        while True:
            lost = False
            for card in self.driver.cards():
                probe = await asyncio.to_thread(self.driver.probe, card.uuid)
                self._change_health(card.uuid, lambda health, probe=probe: after_probe(health, probe))  # type: ignore[misc]
                lost = lost or probe.lost
            enforcer.lost.clear()
            if lost:
                with suppress(DriverError):
                    await asyncio.to_thread(self.driver.restart)
            for _ in range(round(PROBE_S / ROUND_S)):
                await asyncio.sleep(ROUND_S)
                if enforcer.lost:
                    break

    def _hear_xid(self, uuid: str, xid: int) -> None:
        log.warning("XID %d on %s", xid, uuid)
        self._change_health(uuid, lambda health: after_xid(health, xid))

    def _change_health(self, uuid: str, change: Callable[[Health], Health]) -> None:
        before = self._now.health.get(uuid) or self._earlier(uuid)
        after = self._now.health[uuid] = change(before)
        if before.state is not after.state:
            log.warning("%s is %s: %s", uuid, after.state.value, after.message or "clean")
            self._soon.set()

    def _earlier(self, uuid: str) -> Health:
        """A card that an earlier agent had given up has to earn its trust anew."""
        health, message = self.view.reported.get(uuid, ("", ""))
        return Health(State.UNHEALTHY, message) if health in (State.UNHEALTHY, State.RECOVERING) else Health()

    def _wait_for_xids(self, loop: asyncio.AbstractEventLoop) -> None:
        """A thread: the driver's wait blocks."""
        while not self._ended.is_set():
            found = self.driver.wait_xid(0.5)
            if found is not None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._hear_xid, *found)

    async def _beat(self) -> None:
        while True:
            uid = self.view.node_uid
            if not uid:
                await asyncio.sleep(ROUND_S)
                continue
            body = objects.lease(self.settings.node, uid, datetime.now(UTC), self._lease_annotations)
            try:
                await self._client.apply(LEASES, body, objects.MANAGER)
                await asyncio.sleep(objects.HEARTBEAT_S)
            except KubeError as error:
                log.warning("heartbeat: %s", error)
                await asyncio.sleep(2.0)
