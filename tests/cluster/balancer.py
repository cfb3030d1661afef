"""A TCP balancer on loopback: connections go to the back ends in turn, as those of a Service do."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[int]:
    """The port of a balancer before `ports`, for the length of the block."""
    loop = asyncio.new_event_loop()
    found: list[int] = []
    up, stop = threading.Event(), asyncio.Event()
    turn = itertools.cycle(ports)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", next(turn))
        except OSError:
            writer.close()
            return
        with suppress(asyncio.CancelledError):  # the end of the balancer
            await asyncio.gather(forward(reader, behind_writer), forward(behind_reader, writer))
        behind_writer.close()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        found.append(server.sockets[0].getsockname()[1])
        up.set()
        await stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert up.wait(10)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()
