"""External scalers: where they may be, what they are asked, which answers count; against a real server (SPEC §8)."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import unused_port
from controller_values import GIB, NOW, worker
from hypothesis import given
from hypothesis import strategies as st
from planning_values import card

from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig, ExternalScaler
from tensorfusion_iac.controller import external
from tensorfusion_iac.controller.allowed_hosts import AllowedHosts, CheckedResolver, RefusedError, is_forbidden
from tensorfusion_iac.controller.external import Asked, ExternalScalers
from tensorfusion_iac.controller.external_answer import Answer, Heard, question, read_answer
from tensorfusion_iac.controller.scaling import blank
from tensorfusion_iac.controller.wanting import Subject, original_of, want
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.planning.recommend import Amounts, Ceiling, Policy, Side

UP = {"needScaleUp": True, "recommendedResources": {"requests": {"tflops": 30}, "limits": {"tflops": 60}}}
CURRENT = {"requests": {"tflops": "10"}}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "PAUSE_S", 0.0)


@dataclass
class Secrets:
    """The API server's secrets."""

    found: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    refused: bool = False

    async def get(self, resource: object, name: str, namespace: str) -> dict[str, Any]:
        if self.refused:
            raise ApiError(403, "Forbidden", "no")
        if (namespace, name) not in self.found:
            raise ApiError(404, "NotFound", f'secrets "{name}" not found')
        return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in self.found[namespace, name].items()}}


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def scalers(*hosts: str, secrets: Secrets | None = None, timeout_s: float = 5.0, **more: Any) -> ExternalScalers:
    return ExternalScalers(cast("Client", secrets or Secrets()), AllowedHosts.of(hosts), timeout_s, **more)


def asked(url: str, **more: Any) -> Asked:
    return Asked("uid-1", "ml", "chat", NOW, ExternalScaler.model_validate({"enable": True, "url": url} | more), CURRENT)


def ask(handler: Handler, *, hosts: tuple[str, ...] = ("127.0.0.1",), secrets: Secrets | None = None, timeout_s: float = 5.0,
        host: str = "127.0.0.1", **more: Any) -> Answer:  # fmt: skip
    async def run() -> Answer:
        async with served(handler) as port:
            return await scalers(*hosts, secrets=secrets, timeout_s=timeout_s).ask(asked(f"http://{host}:{port}/v1", **more))

    return asyncio.run(run())


def answering(*answers: Any, heard: list[web.Request] | None = None) -> Handler:
    """The answers one after the other: a status, or a document."""
    left = list(answers)

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        if heard is not None:
            heard.append(request)
        one = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=one) if isinstance(one, int) else web.json_response(one)

    return handle


# Asking.


def test_a_scaler_is_asked_in_the_public_form_and_its_answer_is_read() -> None:
    bodies: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        assert (request.method, request.content_type) == ("POST", "application/json")
        assert "Authorization" not in request.headers
        bodies.append(await request.json())
        return web.json_response(UP | {"reason": "queue\nis long", "of the future": 1})

    answer = ask(handle)
    assert (answer.up, answer.down, answer.requests.tflops, answer.limits.tflops) == (True, False, 30, 60)
    assert answer.reason == "queueis long"
    assert bodies == [question("ml", "chat", CURRENT)]
    assert set(bodies[0]) == {"workloadName", "namespace", "currentResources"}


@pytest.mark.parametrize("failures", [[500], [503, 429]])
def test_a_failure_that_may_pass_is_tried_again(failures: list[int]) -> None:
    assert ask(answering(*failures, UP)).up


def test_a_failure_that_does_not_pass_is_told() -> None:
    heard: list[web.Request] = []
    with pytest.raises(ValueError, match="it answered 500, 3 times in a row"):
        ask(answering(500, heard=heard))
    assert len(heard) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 301, 302, 307, 308])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    heard: list[web.Request] = []
    with pytest.raises(ValueError, match=f"it answered {status}"):
        ask(answering(status, heard=heard))
    assert len(heard) == 1


def test_a_redirect_is_not_followed() -> None:
    paths: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        paths.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    with pytest.raises(ValueError, match="redirects are not followed"):
        ask(handle)
    assert paths == ["/v1"]


def test_a_slow_scaler_is_given_up() -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.json_response(UP)

    with pytest.raises(ValueError, match=r"no answer within 0\.1 s, 3 times in a row"):
        ask(handle, timeout_s=0.1)


def test_an_endless_answer_is_cut() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b" " * 4096)
        return response

    with pytest.raises(ValueError, match="larger than 65536 bytes"):
        ask(handle)


def test_nobody_there_is_told() -> None:
    async def run() -> None:
        await scalers("127.0.0.1").ask(asked(f"http://127.0.0.1:{unused_port()}/"))

    with pytest.raises(ValueError, match="it cannot be reached"):
        asyncio.run(run())


# The token.


def test_the_token_is_of_a_secret_of_the_workloads_namespace_and_no_other() -> None:
    heard: list[web.Request] = []
    secrets = Secrets({("ml", "key"): {"token": "s3cret\n", "other": "0ther"}, ("elsewhere", "key"): {"token": "wrong"}})
    ask(answering(UP, heard=heard), secrets=secrets, apiKeySecretRef={"name": "key", "namespace": "elsewhere"})
    ask(answering(UP, heard=heard), secrets=secrets, apiKeySecretRef={"name": "key", "key": "other"})
    assert [one.headers["Authorization"] for one in heard] == ["Bearer s3cret", "Bearer 0ther"]


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        (Secrets(refused=True), "a RoleBinding has to let service account tensor-fusion-system/tensor-fusion-controller get it"),
        (Secrets(), 'Secret ml/key cannot be read: secrets "key" not found'),
        (Secrets({("ml", "key"): {"password": "x"}}), "has no key token"),
        (Secrets({("ml", "key"): {"token": ""}}), "is no token"),
        (Secrets({("ml", "key"): {"token": "a\nb"}}), "is no token"),
        (Secrets({("ml", "key"): {"token": "schlüssel"}}), "is no token"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told_and_nothing_is_asked(secrets: Secrets, message: str) -> None:
    heard: list[web.Request] = []
    with pytest.raises(ValueError, match=message) as caught:
        ask(answering(UP, heard=heard), secrets=secrets, apiKeySecretRef={"name": "key"})
    assert not heard
    assert "schl" not in str(caught.value)


# Where they may be.


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        (["scaler.example.com"], "https://scaler.example.com/v1"),
        (["Scaler.Example.COM"], "https://SCALER.example.com:8443/v1"),
        (["scaler.example.com:8443"], "https://scaler.example.com:8443/v1"),
        (["scaler.example.com:443"], "https://scaler.example.com/"),
        (["10.1.2.3"], "http://10.1.2.3/"),
        (["[fd00::1]:8080"], "http://[fd00::1]:8080/"),
    ],
)
def test_a_listed_host_may_be_asked(hosts: list[str], url: str) -> None:
    AllowedHosts.of(hosts).check(url)


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ([], "https://scaler.example.com/"),
        (["scaler.example.com"], "https://other.example.com/"),
        (["scaler.example.com"], "https://scaler.example.com.evil.example/"),
        (["scaler.example.com"], "https://x.scaler.example.com/"),
        (["scaler.example.com:8443"], "https://scaler.example.com/"),
        (["scaler.example.com"], "https://scaler.example.com@evil.example/"),
        (["scaler.example.com"], "https://user:pw@scaler.example.com/"),
        (["127.0.0.1"], "http://2130706433/"),
        (["169.254.169.254x"], "http://169.254.169.254/latest/meta-data"),
        (["scaler.example.com"], "ftp://scaler.example.com/"),
        (["scaler.example.com"], "file:///etc/passwd"),
        (["scaler.example.com"], "https://scaler.example.com:99999/"),
        (["scaler.example.com"], "https:///v1"),
    ],
)
def test_what_is_not_listed_is_refused_before_anything_is_sent(hosts: list[str], url: str) -> None:
    with pytest.raises(RefusedError):
        AllowedHosts.of(hosts).check(url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "::1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "255.255.255.255", "168.63.129.16", "100.100.100.200", "fd00:ec2::254",
    ],
)  # fmt: skip
def test_addresses_of_the_machine_of_its_link_and_of_metadata_are_forbidden(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize("address", ["10.0.0.5", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd00::5", "2606:4700::1111"])
def test_addresses_of_services_are_not(address: str) -> None:
    assert not is_forbidden(address)


class Fixed(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:  # fmt: skip
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in self.addresses
        ]

    async def close(self) -> None:
        return


def test_a_name_that_leads_to_one_forbidden_address_is_refused() -> None:
    async def resolve(*addresses: str) -> list[str]:
        return [one["host"] for one in await CheckedResolver(Fixed(*addresses)).resolve("scaler.example.com", 443)]

    assert asyncio.run(resolve("10.0.0.5", "10.0.0.6")) == ["10.0.0.5", "10.0.0.6"]
    with pytest.raises(RefusedError, match=r"scaler\.example\.com leads to 169\.254\.169\.254"):
        asyncio.run(resolve("10.0.0.5", "169.254.169.254"))


def test_a_listed_name_that_leads_to_loopback_is_refused_and_the_address_itself_may_be_listed() -> None:
    heard: list[web.Request] = []
    with pytest.raises(RefusedError, match="localhost leads to 127"):
        ask(answering(UP, heard=heard), hosts=("localhost",), host="localhost")
    assert not heard
    assert ask(answering(UP, heard=heard), hosts=("127.0.0.1",)).up


# In its own time.


def test_a_scaler_is_asked_once_an_interval_and_not_before_its_delay() -> None:
    now = [1000.0]
    created = datetime.fromisoformat(NOW).timestamp()
    heard: list[web.Request] = []

    async def run() -> list[int]:
        async with served(answering(UP, heard=heard)) as port:
            wall = [created]
            found = scalers("127.0.0.1", clock=lambda: now[0], wall=lambda: wall[0])
            one = asked(f"http://127.0.0.1:{port}/", interval="1m", initialDelayPeriod="5m")
            counts = []
            for clock_s, wall_s in ((0, 0), (299, 299), (300, 300), (330, 330), (360, 360)):
                now[0], wall[0] = 1000.0 + clock_s, created + wall_s
                before = found.heard(one)
                await asyncio.gather(*found._under_way.values())
                counts.append(len(heard))
            assert before.answer is not None
            await found.close()
            return counts

    assert asyncio.run(run()) == [0, 0, 1, 1, 2]


def test_a_bad_answer_keeps_the_last_good_one_and_says_so() -> None:
    async def run() -> tuple[Heard, Heard, Heard]:
        now = [0.0]
        async with served(answering(UP, 404)) as port:
            found = scalers("127.0.0.1", clock=lambda: now[0])
            one = asked(f"http://127.0.0.1:{port}/", interval="1s")
            first = found.heard(one)
            await asyncio.gather(*found._under_way.values())
            now[0] = 5.0
            second = found.heard(one)
            await asyncio.gather(*found._under_way.values())
            third = found.heard(one)
            found.keep_only(())
            assert found._heard == {}
            await found.close()
            return first, second, third

    first, second, third = asyncio.run(run())
    assert first == Heard()
    assert second.answer == third.answer == read_answer(UP)
    assert (second.problem, third.problem) == ("", "it answered 404")


# Answers.


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "no JSON object"),
        ([], "no JSON object"),
        ({"needScaleUp": "yes"}, "true or false"),
        ({"needScaleDown": 1}, "true or false"),
        ({"needScaleUp": True}, "no recommendedResources"),
        ({"needScaleUp": True, "recommendedResources": 5}, "recommendedResources"),
        ({"needScaleUp": True, "recommendedResources": {"requests": {"tflops": "lots"}}}, r"requests\.tflops"),
        ({"needScaleUp": True, "recommendedResources": {"requests": {"tflops": -1}}}, r"requests\.tflops"),
        ({"needScaleUp": True, "recommendedResources": {"requests": {"vram": "1e30"}}}, r"requests\.vram"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_its_fault(document: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_answer(document)


CARD = card("GPU-0")  # 100 TFLOPS, 80 GiB
CONFIG = AutoScalingConfig.model_validate({"externalScaler": {"enable": True, "url": "https://x"}})
LATER = datetime(2026, 1, 1, tzinfo=UTC)
HELD = Amounts(Side(10, 20), Side(4 * GIB, 8 * GIB))


def subject(**more: Any) -> Subject:
    ceiling = Ceiling(Side(100, 100), Side(80 * GIB, 80 * GIB))
    plain = Subject(CONFIG, Policy(), worker(), original_of(worker(), CARD), ceiling, card_tflops=100, current=HELD)
    return replace(plain, **more)


def answer(up: bool = True, down: bool = False, **resources: Any) -> Heard:
    return Heard(read_answer({"needScaleUp": up, "needScaleDown": down, "recommendedResources": resources}))


def amounts(heard: Heard, used: float = 0.0, **more: Any) -> Amounts | None:
    return want(subject(**more), blank(Policy()), used, LATER, heard).amounts


def test_an_answer_alone_sets_what_it_names_and_leaves_the_rest() -> None:
    found = amounts(answer(requests={"tflops": 30}, limits={"tflops": 60}))
    assert found == Amounts(Side(30, 60), None)
    assert amounts(answer(requests={"compute": 50})) == Amounts(Side(50, 50), None)


def test_an_answer_moves_amounts_only_in_the_direction_that_it_names() -> None:
    less = {"requests": {"tflops": 5, "vram": "2Gi"}, "limits": {"tflops": 90, "vram": "4Gi"}}
    assert amounts(answer(**less)) == Amounts(Side(10, 90), Side(4 * GIB, 8 * GIB))
    assert amounts(answer(up=False, down=True, **less)) == Amounts(Side(5, 20), Side(2 * GIB, 4 * GIB))
    assert amounts(answer(up=True, down=True, **less)) == Amounts(Side(5, 90), Side(2 * GIB, 4 * GIB))


def test_without_a_need_or_an_answer_nothing_is_changed_and_it_is_said_why() -> None:
    assert amounts(answer(up=False, requests={"tflops": 90})) is None
    off = want(subject(), blank(Policy()), 0, LATER, Heard(problem="host x:443 is not allowed"))
    assert (off.amounts, off.reason) == (None, "the external scaler: host x:443 is not allowed")


def test_memory_in_use_is_never_taken_away() -> None:
    found = amounts(answer(up=False, down=True, limits={"vram": "2Gi"}, requests={"vram": "1Gi"}), used=6.0 * GIB)
    assert found is not None
    assert found.vram is not None
    assert found.vram.limit >= 1.15 * 6 * GIB


AMOUNT = st.integers(1, 99_999)


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.booleans(), st.booleans(), st.floats(1, 100), st.floats(1, 80))
def test_no_answer_gets_more_than_a_card_a_quota_or_the_ratios_allow(
    tflops: int, more: int, gib: int, more_gib: int, up: bool, down: bool, most: float, most_gib: float
) -> None:
    heard = answer(
        up, down, requests={"tflops": min(tflops, more), "vram": f"{min(gib, more_gib, 9999)}Gi"},
        limits={"tflops": max(tflops, more), "vram": f"{min(max(gib, more_gib), 9999)}Gi"},
    )  # fmt: skip
    ceiling = Ceiling(Side(most, most), Side(most_gib * GIB, most_gib * GIB))
    found = amounts(heard, ceiling=ceiling)
    if found is None:
        assert (up, down) == (False, False)
        return
    assert found.compute is not None
    assert found.vram is not None
    for side, first, ratios, ceiling_ in (
        (found.compute, HELD.compute, Policy().compute_ratios, most),
        (found.vram, HELD.vram, Policy().vram_ratios, most_gib * GIB),
    ):
        assert first is not None
        assert 0 < side.request <= side.limit <= ceiling_
        assert side.request <= ratios.most * first.request
        assert side.limit <= ratios.most * first.limit
