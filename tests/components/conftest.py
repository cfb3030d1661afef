"""Programs under Pulumi's mocks: the fixtures that run them, and that make what stays unknown in a preview."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulumi
import pytest
from mocked import Console, Program, Ran, Recording, Run
from pulumi.runtime import settings, stack


@pytest.fixture
def run() -> Iterator[Run]:
    """Run a program; a mapping that it returns is awaited as its outputs (an unknown one is left out)."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # The mocks give each thread that they run in a loop, and never close it: so the threads get theirs here.
    threads_loops: list[asyncio.AbstractEventLoop] = []

    def give_loop() -> None:
        threads_loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(threads_loops[-1])

    loop.set_default_executor(ThreadPoolExecutor(max_workers=4, initializer=give_loop))

    def run_program(program: Program, *, preview: bool = False) -> Ran:
        settings.reset_options()
        recording, console = Recording(), Console()
        pulumi.runtime.set_mocks(recording, preview=preview)
        settings.SETTINGS.engine = console
        ran = Ran(recording.registered, console.logged)

        def body() -> None:
            outputs = program() or {}
            for name, value in outputs.items():
                pulumi.Output.from_input(value).apply(lambda known, name=name: ran.outputs.update({name: known}))

        try:
            loop.run_until_complete(stack.run_pulumi_func(body))
        except BaseException as error:  # noqa: BLE001 - the test judges it
            ran.error = error
        return ran

    yield run_program
    # What a failed program left pending would complain when it is collected.
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    for ended in (loop, *threads_loops):
        ended.close()
    settings.reset_options()


@pytest.fixture
def unknown() -> Callable[[], pulumi.Output[Any]]:
    """Makes an Output that is not known in this run, as in a preview before its resource exists."""

    def make() -> pulumi.Output[Any]:
        return pulumi.Output.from_input(pulumi.UNKNOWN)

    return make
