"""`tensorfusion serve ...`: the programs that run in a cluster, each until it is told to stop.

Each command imports its program when it is called: they need different extras, and none pays for another's memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.cli.exits import environment
from tensorfusion_iac.cli.output import complain
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.scheduling.profile import DEFAULT_LEASE, EXTENDER_PORT

Kubeconfig = Annotated[
    Path | None, typer.Option(envvar="KUBECONFIG", help="Access to the API server; default: the pod's service account.")
]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="The programs of a cluster: each serves until it is told to stop.",
)


@app.callback()
def _programs() -> None:
    """The programs of a cluster: each serves until it is told to stop."""


@app.command()
def webhook(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 9443,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",  # noqa: S104
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[str, typer.Option(help="Namespace of its own objects.")] = SYSTEM_NAMESPACE,
    host: Annotated[
        list[str] | None,
        typer.Option(help="What else API servers reach it by, beside its Service; may be repeated."),
    ] = None,
    tls_folder: Annotated[
        Path | None,
        typer.Option("--tls", help="Folder with cert-manager's tls.crt and tls.key; default: its own."),
    ] = None,
    identity: Annotated[str, typer.Option(envvar="POD_NAME", help="Name of this replica; default: the machine's name.")] = "",
) -> None:
    """Serve the admission webhook."""
    import uvloop

    from tensorfusion_iac.admission.program import Settings, run

    settings = Settings(address, port, namespace, tuple(host or ()), tls_folder, identity)
    _serve(kubeconfig, lambda client: run(client, settings, _ready), loop=uvloop.new_event_loop)


@app.command()
def scheduler(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = EXTENDER_PORT,
    address: Annotated[str, typer.Option(help="Address to listen on; kube-scheduler is beside it.")] = "127.0.0.1",
    kubeconfig: Kubeconfig = None,
    identity_prefix: Annotated[
        str, typer.Option(envvar="POD_NAME", help="What the lease's holder begins with; default: the machine's name.")
    ] = "",
    lease: Annotated[str, typer.Option(help="kube-scheduler's lease, NAMESPACE/NAME.")] = DEFAULT_LEASE,
    telemetry_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of metrics and health alone, on every address; default: none.")
    ] = None,
) -> None:
    """Serve kube-scheduler's extender: GPUs are placed here."""
    import uvloop

    from tensorfusion_iac.scheduling.program import Settings, run

    settings = Settings(identity_prefix or platform.node(), address, port, lease, telemetry_port)
    _serve(kubeconfig, lambda client: run(client, settings, _ready), loop=uvloop.new_event_loop)


@app.command()
def controller(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics and /readyz; 0 takes a free one.")] = 9480,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",  # noqa: S104
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[str, typer.Option(help="Namespace of its own objects.")] = SYSTEM_NAMESPACE,
    identity: Annotated[str, typer.Option(envvar="POD_NAME", help="Name of this replica; default: the machine's name.")] = "",
    scaling_period: Annotated[float, typer.Option(min=1, help="Seconds between two looks of autoscaling.")] = 30.0,
    grey_quiet: Annotated[float, typer.Option(min=1, help="Seconds without a change before a grey release is corrected.")] = 30.0,
    external_scaler_host: Annotated[
        list[str] | None,
        typer.Option(help="HOST or HOST:PORT that external scalers may be on; may be repeated. None: they are off."),
    ] = None,
) -> None:
    """Keep workloads, pools and quotas true; one replica is active at a time."""
    from tensorfusion_iac.controller.program import Settings, run

    hosts = tuple(external_scaler_host or ())
    settings = Settings(
        address, port, namespace, identity, round_s=scaling_period, external_hosts=hosts, grey_quiet_s=grey_quiet
    )  # fmt: skip
    _serve(kubeconfig, lambda client: run(client, settings, _ready))


@app.command()
def agent(
    node: Annotated[str, typer.Option(envvar="NODE_NAME", help="Name of the node; default: the machine's.")] = "",
    address: Annotated[str, typer.Option(envvar="POD_IP", help="Address by which the controller reaches it.")] = "127.0.0.1",
    kubeconfig: Kubeconfig = None,
    metrics_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0 takes a free one.")] = 9460,
    history_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the usage history (TLS).")] = 9461,
    cgroups: Annotated[Path, typer.Option(help="Where the host's cgroups are mounted.")] = Path("/sys/fs/cgroup"),
    run_folder: Annotated[Path, typer.Option(help="Folder on a memory file system that the watchdog has too.")] = Path(
        "/run/tensor-fusion/agent"
    ),
) -> None:
    """Hold the GPU pods of one node to their amounts, and report its cards."""
    from tensorfusion_iac.agent.driver import DriverError
    from tensorfusion_iac.agent.lifeline import AnotherAgentError
    from tensorfusion_iac.agent.nvml import Nvml
    from tensorfusion_iac.agent.program import Settings, run

    try:
        driver = Nvml()
    except DriverError as error:
        raise environment(f"NVIDIA's management library cannot be used on this node: {error}") from None
    settings = Settings(
        node or platform.node(), address, metrics_port=metrics_port, history_port=history_port, cgroups=cgroups,
        lifeline=run_folder / "lifeline", record=run_folder / "memory-limits.json",
    )  # fmt: skip
    _serve(kubeconfig, lambda client: run(client, driver, settings, _both_ready), AnotherAgentError)


@app.command("simulated-agents")
def simulated_agents(
    kubeconfig: Kubeconfig = None,
    address: Annotated[str, typer.Option(help="Address by which the controller reaches it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0 takes a free one.")] = 0,
    history_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the usage histories (TLS).")] = 0,
    history_step: Annotated[int, typer.Option(min=1, max=300, help="Seconds that one row of the histories is of.")] = 30,
) -> None:
    """Be the agents of all simulated nodes of a cluster, with load that follows from workloads' names, or as pods say."""
    from tensorfusion_iac.agent.program import until_told_to_stop
    from tensorfusion_iac.agent.simulated_program import Settings, SimulatedAgents

    async def run(client: Client) -> None:
        async with client:
            await until_told_to_stop(SimulatedAgents(client, Settings(address, port, history_port, history_step)).run(_ready))

    _serve(kubeconfig, run)


def _serve(
    kubeconfig: Path | None,
    run: Callable[[Client], Awaitable[None]],
    *faults: type[Exception],
    loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """Run a program to its end. What the cluster or the machine refuses, and `faults`, end the command with one message.

    `loop`: uvloop's where many requests are answered; where few are, it is not worth its 5 MiB.
    """

    async def serve() -> None:
        await run(await Client.from_kubeconfig(kubeconfig) if kubeconfig is not None else Client.in_cluster())

    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    expected: tuple[type[Exception], ...] = (KubeError, OSError, *faults)
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(serve())
    except* expected as failures:
        raise environment("; ".join(str(failure) for failure in failures.exceptions)) from None


def _ready(port: int) -> None:
    complain(f"ready on port {port}")


def _both_ready(metrics: int, history: int) -> None:
    complain(f"ready on port {metrics}, history on {history}")
