"""The door of the embedded control plane: bring it up, take it down, say how it is (ARCHITECTURE.md, "The embedded default").

A control plane is one folder. `up` decides what is to run and starts the supervisor, which does the rest; a second `up` finds
it running and changes nothing. Every function says what it does in lines to `say`, and raises LocalError with one message.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.agent.simulated_cards import SELECTOR
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import NODES
from tensorfusion_iac.local import certs, commands, fleet, fleet_objects, kubeconfig, leftovers, ports, scheduler_config, stages
from tensorfusion_iac.local.catalogue import look_up
from tensorfusion_iac.local.errors import LocalError, WishError
from tensorfusion_iac.local.layout import Layout, write_private_if_changed
from tensorfusion_iac.local.locks import is_held, locked
from tensorfusion_iac.local.real_nodes import files, rows
from tensorfusion_iac.local.real_nodes import setup as real_nodes
from tensorfusion_iac.local.real_nodes.outside import nodes_of
from tensorfusion_iac.local.real_nodes.plan import RealNode
from tensorfusion_iac.local.state import (
    NodeGroup,
    Phase,
    ProcessRecord,
    Programs,
    Runtime,
    Settings,
    load_runtime,
    load_settings,
    save,
)

Say = Callable[[str], None]

UP_TIMEOUT_S = 120.0
DOWN_TIMEOUT_S = 60.0
_COMMAND_LOCK_S = 300.0
_POLL_S = 0.1
_GRACE_S = 5.0
_START_TIMEOUT_S = 60.0
_GIVE_UP_AFTER = 3  # failures in a row before it was ever ready
_LOG_TAIL_LINES = 8
_COMPONENTS = ("controller-manager", "scheduler", "kwok", "simulated-agents", "webhook", "extender", "controller")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked of `up`; None: as it was before, or the default."""

    groups: tuple[NodeGroup, ...] | None = None
    port: int | None = None
    real_nodes: int | None = None
    programs: Programs | None = None


@dataclass(frozen=True, slots=True)
class Up:
    """The outcome of `up`. `started` is false when it was running already."""

    kubeconfig: Path
    server: str
    webhook_url: str
    started: bool
    nodes: int
    """simulated"""
    real_nodes: int
    took_s: float


def up(
    layout: Layout,
    wish: Wish,
    tools: Callable[[], Mapping[str, Path]],
    say: Say,
    *,
    timeout_s: float = UP_TIMEOUT_S,
    owner_pid: int | None = None,
) -> Up:
    """Bring the control plane up, or leave it alone if it is up as wished. `tools` is asked only if something starts.

    With `owner_pid`, what is started ends by itself when that process does (for tests, which may be killed).
    Raises LocalError: a busy port, a folder that cannot be used, a process that does not come up.
    """
    began = time.monotonic()
    layout.prepare()
    with _turn(layout, say):
        remembered = _remembered(layout, say)
        running = remembered is not None and is_held(layout.supervisor_lock)
        if running and remembered is not None:
            settings = _change_running(layout, remembered, wish, say)
        else:
            settings = _start(layout, remembered, wish, tools, say, owner_pid)
        try:
            _wait_until_ready(layout, settings, say, began + timeout_s)
        except LocalError:
            if not running:  # nothing half-started stays behind
                _end(layout, say)
            raise
    nodes = sum(group.nodes for group in settings.groups)
    server, webhook = commands.server_url(settings), commands.webhook_url(settings)
    return Up(layout.kubeconfig, server, webhook, not running, nodes, settings.real_nodes, time.monotonic() - began)


def down(layout: Layout, say: Say) -> bool:
    """End every process; the cluster's data stays. Returns whether anything was running."""
    with _turn(layout, say):
        return _end(layout, say)


def purge(layout: Layout, say: Say) -> bool:
    """As `down`, and remove the data, certificates, logs and settings too."""
    with _turn(layout, say):
        ended = _end(layout, say)
        try:
            layout.purge((leftovers.SUPERVISOR, *commands.PROCESSES, *rows.log_names(layout)))
        except OSError as error:
            raise LocalError(f"cannot remove {error.filename}: {error.strerror}") from None
        return ended


def _turn(layout: Layout, say: Say) -> AbstractContextManager[None]:
    """Keeps two commands on one control plane apart; where there is no folder, there is nothing to keep apart."""
    if layout.root.exists() and not layout.root.is_dir():
        raise LocalError(f"{layout.root} is not a folder; give the control plane's with --dir")
    if not layout.own.is_dir():
        return nullcontext()
    return locked(layout.command_lock, _COMMAND_LOCK_S, lambda: say("waiting for another up or down"))


def _remembered(layout: Layout, say: Say) -> Settings | None:
    """The settings of the last `up`. Unreadable ones are put aside: all they hold can be decided anew."""
    try:
        return load_settings(layout.settings)
    except LocalError as error:
        aside = layout.settings.with_suffix(".unreadable")
        layout.settings.replace(aside)
        say(f"{error}; it is now {aside.name}, and ports and nodes are decided anew")
        return None


def _change_running(layout: Layout, remembered: Settings, wish: Wish, say: Say) -> Settings:
    if wish.port is not None and wish.port != remembered.ports.apiserver:
        raise LocalError(
            f"the control plane in {layout.root} is already up on port {remembered.ports.apiserver}; "
            f"run `tensorfusion local down` before `up --port {wish.port}`"
        )
    if wish.real_nodes is not None and wish.real_nodes != remembered.real_nodes:
        raise LocalError(
            f"the control plane in {layout.root} is already up with {remembered.real_nodes} real nodes; "
            f"run `tensorfusion local down` before `up --real-nodes {wish.real_nodes}`"
        )
    if wish.programs is not None and wish.programs != remembered.programs:
        raise LocalError(
            f"the control plane in {layout.root} is already up with --programs {remembered.programs}; "
            f"run `tensorfusion local down` before `up --programs {wish.programs}`"
        )
    if wish.groups is None or wish.groups == remembered.groups:
        return remembered
    fleet.build(wish.groups, look_up)
    settings = remembered.model_copy(update={"groups": wish.groups})
    save(layout.settings, settings)
    say(f"changing to {describe(wish.groups)}")
    for item in leftovers.find(layout.root, leftovers.SUPERVISOR):
        item.process.send_signal(signal.SIGHUP)
    return settings


def _start(
    layout: Layout,
    remembered: Settings | None,
    wish: Wish,
    tools: Callable[[], Mapping[str, Path]],
    say: Say,
    owner_pid: int | None,
) -> Settings:
    old_count, old_network, old_programs = _real_nodes_of(remembered)
    count = old_count if wish.real_nodes is None else wish.real_nodes
    programs = wish.programs or old_programs
    groups = _groups(wish, remembered, count, programs)
    fleet.build(groups, look_up)  # an unknown model is told before anything starts
    _end(layout, say)  # what a killed supervisor left behind would keep its ports and files
    choice = ports.choose(remembered.ports if remembered else None, wish.port, ports.is_free)
    for name, old in choice.moved.items():
        say(f"port {old} of {name} is in use now; it moves to {getattr(choice.ports, name)}")
    settings = Settings(
        ports=choice.ports,
        groups=groups,
        tools=dict(tools()) | (real_nodes.tools(layout, say) if count else {}),
        real_nodes=count,
        network=real_nodes.network_number(old_network) if count else old_network,
        programs=programs,
    )
    _write_files(layout, settings, say)
    _start_supervisor(layout, owner_pid)
    return settings


def _real_nodes_of(remembered: Settings | None) -> tuple[int, int | None, Programs]:
    if remembered is None:
        return 0, None, Programs.LOCAL
    return remembered.real_nodes, remembered.network, remembered.programs


def _groups(wish: Wish, remembered: Settings | None, real: int, programs: Programs) -> tuple[NodeGroup, ...]:
    """The simulated nodes. There are none where our programs are pods: on a simulated node those would only seem to run."""
    if programs is Programs.LOCAL:
        return wish.groups or (remembered.groups if remembered else ()) or fleet.DEFAULT_GROUPS
    if wish.groups:
        raise WishError("with --programs cluster all nodes are real: leave simulated nodes out")
    if not real:
        raise WishError("--programs cluster needs nodes that run pods: add --real-nodes 1")
    return ()


def _start_supervisor(layout: Layout, owner_pid: int | None) -> None:
    owner = [] if owner_pid is None else [str(owner_pid)]
    log = layout.log(leftovers.SUPERVISOR)
    with log.open("ab") as output:
        start = subprocess.run(
            [sys.executable, "-m", "tensorfusion_iac.local.supervisor", str(layout.root), *owner],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=os.environ | leftovers.marks(layout.root, leftovers.SUPERVISOR),
            start_new_session=True, check=False, timeout=_START_TIMEOUT_S,
        )  # fmt: skip
    if start.returncode != 0:
        raise LocalError(f"the supervisor cannot start; the end of {log}:\n{_tail(log)}")


def _write_files(layout: Layout, settings: Settings, say: Say) -> None:
    nodes = nodes_of(layout, settings)
    leaves = certs.for_nodes(nodes[0].network.gateway, files.leaves(nodes)) if nodes else certs.LEAVES
    pki = certs.ensure(layout.pki, leaves=leaves)
    authority, server = pki.pair(certs.CLUSTER).certificate.read_bytes(), commands.server_url(settings)
    paths = {user: layout.component_kubeconfig(user) for user in _COMPONENTS} | {"admin": layout.kubeconfig}
    for user, path in paths.items():
        pair = pki.pair(user)
        text = kubeconfig.render(server, user, authority, pair.certificate.read_bytes(), pair.key.read_bytes())
        write_private_if_changed(path, text.encode())
    access = layout.component_kubeconfig("scheduler")
    scheduler = scheduler_config.render(access, settings.ports.extender)
    if settings.programs is Programs.CLUSTER:
        scheduler = scheduler_config.render_default(access)
    write_private_if_changed(commands.scheduler_config_path(layout), scheduler.encode())
    write_private_if_changed(commands.kwok_config_path(layout), stages.render().encode())
    if nodes:
        real_nodes.write(nodes, pki, settings.ports.apiserver, settings.tools, say)
    save(layout.settings, settings)


def _wait_until_ready(layout: Layout, settings: Settings, say: Say, deadline: float) -> None:
    awaited = {process.name for process in commands.table(settings, layout) if not process.until}
    announced = _ready(load_runtime(layout.runtime))  # a second `up` has nothing to tell
    while True:
        runtime = load_runtime(layout.runtime)
        ready = _ready(runtime)
        for name in sorted(ready - announced):
            say(f"{name} is ready")
        announced |= ready
        for record in runtime.processes if runtime else ():
            _give_up_on(record, layout)
        if runtime and awaited <= ready:
            break
        if not is_held(layout.supervisor_lock):
            raise LocalError(f"the supervisor ended:\n{_tail(layout.log(leftovers.SUPERVISOR))}")
        if time.monotonic() > deadline:
            waiting = awaited - ready if runtime else {leftovers.SUPERVISOR}
            raise LocalError(f"not ready in time: {', '.join(sorted(waiting))}; see {layout.logs}")
        time.sleep(_POLL_S)
    asyncio.run(_nodes_ready(layout, fleet.build(settings.groups, look_up), deadline))
    asyncio.run(_real_nodes_ready(layout, nodes_of(layout, settings), deadline))


def _ready(runtime: Runtime | None) -> set[str]:
    return {record.name for record in runtime.processes if record.phase is Phase.READY} if runtime else set()


def _give_up_on(record: ProcessRecord, layout: Layout) -> None:
    if record.phase is not Phase.READY and record.failures >= _GIVE_UP_AFTER:
        raise LocalError(
            f"{record.name} {record.last_end}, {record.failures} times in a row; "
            f"the end of {layout.log(record.name)}:\n{_tail(layout.log(record.name))}"
        )


async def _nodes_ready(layout: Layout, wanted: Sequence[fleet.FleetNode], deadline: float) -> None:
    async with await Client.from_kubeconfig(layout.kubeconfig) as client:
        while True:
            try:
                listing = await client.list(NODES, label_selector=SELECTOR)
                present = {item["metadata"]["name"]: item for item in listing.items}
                waiting = present.keys() ^ {node.name for node in wanted}
                waiting |= {node.name for node in wanted if not fleet_objects.is_ready(node, present.get(node.name))}
                if not waiting:
                    return
                why = ", ".join(sorted(waiting)[:5])
            except KubeError as error:
                why = str(error)
            if time.monotonic() > deadline:
                raise LocalError(f"simulated nodes are not ready in time: {why}; see {layout.logs}")
            await asyncio.sleep(_POLL_S)


async def _real_nodes_ready(layout: Layout, nodes: Sequence[RealNode], deadline: float) -> None:
    async with await Client.from_kubeconfig(layout.kubeconfig) as client:
        for node in nodes:
            while not await real_nodes.is_ready(client, node):
                if time.monotonic() > deadline:
                    raise LocalError(f"{node.name} is not ready in time; see {layout.log(f'{node.name}-kubelet')}")
                await asyncio.sleep(_POLL_S)


def describe(groups: tuple[NodeGroup, ...]) -> str:
    """The simulated nodes in a few words."""
    if not groups:
        return "no simulated nodes"
    parts = [f"{group.nodes} x {group.gpus_per_node} {group.model}" for group in groups]
    return f"simulated nodes: {', '.join(parts)}"


def _end(layout: Layout, say: Say) -> bool:
    """End the supervisor, which ends its processes, and then whatever is left."""
    found = leftovers.find(layout.root)
    supervisors = [item for item in found if item.name == leftovers.SUPERVISOR]
    if supervisors:
        say("stopping the control plane")
    _end_all(supervisors, DOWN_TIMEOUT_S)
    if left := leftovers.find(layout.root):
        say(f"ending what was left running: {', '.join(item.name for item in left)}")
        _end_all(left, _GRACE_S)
    real_nodes.end(layout)
    layout.runtime.unlink(missing_ok=True)
    return bool(found)


def _end_all(running: list[leftovers.Running], grace_s: float) -> None:
    if stubborn := leftovers.end(running, grace_s):
        names = ", ".join(f"{item.name} (process {item.process.pid})" for item in stubborn)
        raise LocalError(f"these processes cannot be ended: {names}")


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except OSError:
        lines = []
    return "\n".join(f"  {line}" for line in lines) or "  (it wrote nothing)"
