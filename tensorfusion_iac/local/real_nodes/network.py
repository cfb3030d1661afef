"""The network of the real nodes: `python -m tensorfusion_iac.local.real_nodes.network ROOT`, as long as it runs.

A bridge of this machine to which the nodes are joined, and a forwarder from its address to the API server, which itself listens
on the loopback interface alone. At the end the bridge is removed, and with it all routes to the nodes.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.ports import HOST
from tensorfusion_iac.local.real_nodes.plan import Network, bridge_name
from tensorfusion_iac.local.state import load_settings

_CHUNK_BYTES = 2**16


def ip(*arguments: str) -> None:
    """Run iproute2's `ip`; LocalError with its message where it fails."""
    run = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise LocalError(f"ip {' '.join(arguments)}: {run.stderr.strip()}")


def remove_link(name: str) -> None:
    """Remove a link of this machine, if it is there."""
    if Path("/sys/class/net", name).exists():
        with suppress(LocalError):  # it may go by itself just now, with the network at its other end
            ip("link", "delete", name)


def remove_links(layout: Layout) -> None:
    """Remove the bridge and the nodes' cables: the kernel takes its time to remove those of nodes that have ended."""
    for path in Path("/sys/class/net").glob(f"{bridge_name(layout)}*"):
        remove_link(path.name)


async def forward(address: str, port: int, to: tuple[str, int]) -> None:
    """Serve TCP on an address and hand every connection on, until cancelled."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*to)
        except OSError:
            writer.close()  # the API server is being started again
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        for each in (writer, far_writer):
            each.close()

    async with await asyncio.start_server(connected, address, port) as server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        return
    writer.close()  # one way is broken: so is the other


async def _run(layout: Layout, network: Network, port: int) -> None:
    bridge, stop = bridge_name(layout), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    remove_link(bridge)
    ip("link", "add", bridge, "type", "bridge")
    try:
        ip("address", "add", f"{network.gateway}/{network.nodes.prefixlen}", "dev", bridge)
        ip("link", "set", bridge, "up")
        serving = asyncio.create_task(forward(network.gateway, port, (HOST, port)))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        serving.cancel()
    finally:
        remove_link(bridge)


def main(arguments: list[str]) -> int:
    """Run until SIGTERM."""
    layout = Layout.at(Path(arguments[0]))
    try:
        settings = load_settings(layout.settings)
        if settings is None or settings.network is None:
            raise LocalError(f"{layout.settings} names no network: `tensorfusion local up --real-nodes N` does")
        asyncio.run(_run(layout, Network(settings.network), settings.ports.apiserver))
    except (LocalError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
