"""The port of the programs for probes and Prometheus: metrics and health, and nothing that places or binds."""

from __future__ import annotations

import asyncio

import aiohttp

from tensorfusion_iac.kube.telemetry import telemetry
from tensorfusion_iac.scheduling.metrics import Metrics


def statuses(synced: bool, *requests: tuple[str, str]) -> list[int]:
    async def run() -> list[int]:
        async with telemetry(lambda: synced, Metrics().text, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            found = []
            for method, path in requests:
                async with session.request(method, f"http://127.0.0.1:{port}{path}") as answer:
                    found.append(answer.status)
            return found

    return asyncio.run(run())


def test_it_is_alive_at_once_and_ready_when_its_caches_are() -> None:
    assert statuses(False, ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")) == [200, 503, 200]
    assert statuses(True, ("GET", "/readyz")) == [200]


def test_nobody_places_or_binds_there() -> None:
    verbs = [("POST", f"/{verb}") for verb in ("filter", "prioritize", "preempt", "bind")]
    assert statuses(True, *verbs, ("GET", "/explain/pod/a/b")) == [404] * 5
