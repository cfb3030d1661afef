"""The agent as a whole, started while the API server is away: it undoes what an earlier one left, and cares for its cards."""

from __future__ import annotations

import asyncio
import re
import ssl
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cgroup_node import Node, container_id, pod_uid
from fake_nvml import GPU_IS_LOST, Fake

from tensorfusion_iac.agent import program
from tensorfusion_iac.agent.cgroups import Version
from tensorfusion_iac.agent.freezer import DutyGroup
from tensorfusion_iac.agent.lifeline import AnotherAgentError, Lifeline
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.program import Agent, Settings
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.credentials import Credentials

Load = Callable[[Fake], Nvml]
NOBODY = Credentials("http://127.0.0.1:1", ssl.create_default_context(), lambda: None)


def serve(driver: Nvml, node: Node, folder: Path, scenario: Callable[[Callable[[], Awaitable[str]]], Awaitable[None]]) -> None:
    """Run an agent without an API server for as long as the scenario lasts, which can ask for the metrics."""
    settings = Settings(
        "n", cgroups=node.mount, lifeline=folder / "run" / "lifeline", record=folder / "run" / "limits.json",
        mps=folder / "mps", metrics_port=0, history_port=0,
    )  # fmt: skip

    async def run() -> None:
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        async with Client(NOBODY) as client:
            agent = asyncio.create_task(Agent(client, driver, settings).run(lambda metrics, history: ready.set_result(metrics)))
            done, _ = await asyncio.wait({agent, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            if agent in done:
                await agent

            def read() -> str:
                with urllib.request.urlopen(f"http://127.0.0.1:{ready.result()}/metrics", timeout=10) as answer:
                    return str(answer.read().decode())

            try:
                await asyncio.wait_for(scenario(lambda: asyncio.to_thread(read)), 50)
            finally:
                agent.cancel()
                await asyncio.gather(agent, return_exceptions=True)

    asyncio.run(run())


async def until(metrics: Callable[[], Awaitable[str]], pattern: str) -> None:
    while not re.search(pattern, await metrics()):
        await asyncio.sleep(0.1)


def healthy(index: int, value: float) -> str:
    return rf'tensor_fusion_gpu_healthy\{{gpu="[^"]*",index="{index}",model="[^"]*",node="[^"]*"\}} {value}'


def test_a_lost_card_is_sick_alone_and_well_again_after_a_reset(
    fake: Fake, node: Node, loaded: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROBE_S", 0.5)
    fake.add_card()
    fake.add_card()

    async def scenario(metrics: Callable[[], Awaitable[str]]) -> None:
        await until(metrics, healthy(0, 1.0))
        fake.cards[0].error = GPU_IS_LOST
        await until(metrics, healthy(0, 0.0))
        assert re.search(healthy(1, 1.0), await metrics())
        fake.reset_card(fake.cards[0])
        await until(metrics, healthy(0, 1.0))

    serve(loaded(fake), node, tmp_path, scenario)


def test_a_fatal_xid_makes_a_card_sick_and_a_programs_own_does_not(
    fake: Fake, node: Node, loaded: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROBE_S", 0.5)
    fake.add_card()
    fake.add_card()

    async def scenario(metrics: Callable[[], Awaitable[str]]) -> None:
        await until(metrics, healthy(1, 1.0))
        fake.add_xid(0, 31)
        fake.add_xid(1, 79)
        await until(metrics, healthy(1, 0.0))
        assert re.search(healthy(0, 1.0), await metrics())

    serve(loaded(fake), node, tmp_path, scenario)


def test_what_an_earlier_agent_left_frozen_runs_when_the_agent_is_ready(
    fake: Fake, node: Node, loaded: Load, tmp_path: Path
) -> None:
    fake.add_card()
    container = node.container(pod_uid(1), container_id(1))
    job = node.run(container, ["/bin/sh", "-c", "echo ready; exec sleep 600"])
    group = DutyGroup.open(container, Version.V2)
    group.add(job.pid)
    group.freeze()

    async def scenario(metrics: Callable[[], Awaitable[str]]) -> None:
        assert not (container / "tf-duty").exists()
        assert str(job.pid) in (container / "cgroup.procs").read_text()

    serve(loaded(fake), node, tmp_path, scenario)


def test_a_second_agent_touches_nothing(fake: Fake, node: Node, loaded: Load, tmp_path: Path) -> None:
    fake.add_card()
    first = Lifeline(tmp_path / "run" / "lifeline")
    container = node.container(pod_uid(1), container_id(1))
    job = node.run(container, ["/bin/sh", "-c", "echo ready; exec sleep 600"])
    group = DutyGroup.open(container, Version.V2)
    group.add(job.pid)

    async def scenario(metrics: Callable[[], Awaitable[str]]) -> None:
        pytest.fail("it started")

    with pytest.raises(AnotherAgentError):
        serve(loaded(fake), node, tmp_path, scenario)
    assert (container / "tf-duty").exists()
    first.close()
