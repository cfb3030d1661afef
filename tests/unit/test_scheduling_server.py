"""The extender's server, its lease rule, and what a Binding's answer means: over real HTTP, with a scripted API (R3, R10)."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_scheduling_state import Clock, Cluster, owned, pod, spec, told

from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable
from tensorfusion_iac.kube.informer import ChangeType
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.scheduling.binds import PodBinds
from tensorfusion_iac.scheduling.explaining import Explaining
from tensorfusion_iac.scheduling.extender import Extender, serving
from tensorfusion_iac.scheduling.leadership import Leadership
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.partitions import Partitions
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.preemption import Preemption
from tensorfusion_iac.scheduling.wire import BindRequest

T = TypeVar("T")
LEASE = "kube-system/kube-scheduler"


class Api:
    """Answers creates and gets from a script; an exception in the place of an answer is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.created: list[dict[str, Any]] = []

    async def create(self, resource: Any, body: dict[str, Any], namespace: str | None = None, **_: Any) -> dict[str, Any]:
        self.created.append(body)
        return await self.get()

    async def get(self, *_: Any) -> dict[str, Any]:
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def lease(holder: str, renewed: str = "1", transitions: int = 0) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseTransitions": transitions, "leaseDurationSeconds": 15}
    return {"metadata": {"name": "kube-scheduler", "namespace": "kube-system", "uid": "l"}, "spec": spec}


async def nothing() -> None:
    """A rebuild that is done at once."""


async def alone(pod: GpuPod) -> str:
    """A pod that starts by itself waits for nobody."""
    return ""


class Served:
    """A cluster with a running extender, and an API that answers as told."""

    def __init__(self, *answers: Any) -> None:
        self.cluster, self.api = Cluster(cards=1, nodes=2), Api(*answers)
        state, decider = self.cluster.state, self.cluster.decider
        self.leadership = Leadership("me", LEASE, nothing, self.cluster.clock)
        client: Any = self.api
        partitions = Partitions(client, state, lambda: True)
        self.binds = PodBinds(client, state, decider, self.leadership, partitions, alone)
        preemption = Preemption(client, state, decider, Metrics(), lambda: True)
        self.extender = Extender(decider, self.leadership, self.binds, preemption, Explaining(state, decider), Metrics())

    async def lead(self) -> None:
        self.leadership.take(told(lease("me_1", str(self.cluster.clock()))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def ask(self, use: Callable[[aiohttp.ClientSession, str], Awaitable[T]]) -> T:
        async def run() -> T:
            await self.lead()
            async with serving(self.extender, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
                return await use(session, f"http://127.0.0.1:{port}")

        return asyncio.run(run())

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        async def use(session: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
            async with session.post(url + path, data=io.BytesIO(body)) as answer:
                text = await answer.read()
                return answer.status, json.loads(text) if answer.status == 200 else text.decode()

        return self.ask(use)


def request(item: dict[str, Any], nodes: list[str]) -> bytes:
    return json.dumps({"Pod": item, "Nodes": None, "NodeNames": nodes}).encode()


def test_a_pod_is_filtered_scored_and_bound_over_http() -> None:
    served = Served()
    item = owned(pod("a", spec(10)), "ReplicaSet")
    served.cluster.see(item, ChangeType.ADDED)

    async def use(session: aiohttp.ClientSession, url: str) -> list[Any]:
        answers = []
        bind = json.dumps({"PodNamespace": "ns", "PodName": "a", "PodUID": "uid-a", "Node": "n0"}).encode()
        for path, body in (("filter", request(item, ["n0", "n1"])), ("prioritize", request(item, ["n0", "n1"])), ("bind", bind)):
            async with session.post(f"{url}/{path}", data=body) as answer:
                answers.append(await answer.json())
        return answers

    filtered, scored, bound = served.ask(use)
    assert filtered["NodeNames"] == ["n0", "n1"]
    assert scored == [{"Host": "n0", "Score": 10}]
    assert bound == {"Error": ""}
    (binding,) = served.api.created
    assert binding["metadata"]["uid"] == "uid-a"
    assert binding["target"]["name"] == "n0"
    assert binding["metadata"]["annotations"]["tensor-fusion.ai/gpu-ids"] == "GPU-n0-0"


def test_where_nothing_fits_the_reasons_are_unresolvable_for_kube_scheduler() -> None:
    served = Served()
    status, answer = served.post("/filter", request(pod("a", spec(10, gpu_model="T4")), ["n0", "n1", "n7"]))
    assert status == 200
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {
        "n0": "GPU model does not match", "n1": "GPU model does not match", "n7": "no GPU known on the node",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/filter", "/prioritize", "/preempt", "/bind"])
@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b"{}", b'{"Pod":null}', b'{"Pod":{},"NodeNames":null}', b'{"Pod":{},"NodeNames":[1]}',
     b'{"Pod":[],"NodeNames":[]}', b'{"PodName":1}', b'{"Pod":{},"NodeNameToMetaVictims":[1]}', b"\xff\xfe", b"1e999"],
)  # fmt: skip
def test_what_is_not_of_the_protocol_is_the_callers_fault(path: str, body: bytes) -> None:
    status, _ = Served().post(path, body)
    assert status in (200, 400)
    if status == 200:  # an empty list of victims is a request
        assert path == "/preempt"


def test_a_body_of_twenty_megabytes_is_refused() -> None:
    served = Served()
    assert served.post("/filter", b" " * 20 * 2**20)[0] == 413
    assert served.post("/filter", request(pod("a", spec(1)), ["n0"]))[1]["NodeNames"] == ["n0"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": json_values | st.fixed_dictionaries(
            {}, optional={"name": json_values, "uid": json_values, "annotations": json_values, "labels": json_values}
        ),
        "spec": json_values, "status": json_values,
    },
)  # fmt: skip
ours = st.builds(
    lambda given: pod("a", spec(10)) | given,
    st.fixed_dictionaries({}, optional={
        "status": json_values | st.fixed_dictionaries({"phase": json_values, "startTime": json_values}),
        "spec": json_values | st.fixed_dictionaries({}, optional={
            "priority": json_values, "schedulingGates": json_values, "nodeName": json_values, "preemptionPolicy": json_values,
        }),
    }),
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["/filter", "/prioritize", "/preempt", "/bind"]),
    json_values | pods | ours,
    json_values | st.lists(st.text(max_size=3)),
)
def test_no_body_makes_a_500(path: str, item: Any, nodes: Any) -> None:
    body = json.dumps({"Pod": item, "NodeNames": nodes, "NodeNameToMetaVictims": nodes, "PodName": nodes}).encode(
        errors="surrogatepass"
    )
    assert Served().post(path, body)[0] in (200, 400)


# The lease.


def test_nothing_is_answered_while_another_holds_the_lease_or_it_was_not_renewed() -> None:
    async def run() -> None:
        clock = Clock()
        leadership = Leadership("me", LEASE, nothing, clock)
        assert leadership.refusal() == f"nobody holds the lease {LEASE}"
        leadership.take(told(lease("other_1")))
        assert "is held by other_1, not by me*" in str(leadership.refusal())
        leadership.take(told(lease("me_1", "2")))
        assert leadership.refusal() == "reservations are being read anew from the pods"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert leadership.refusal() is None
        clock.now += 14
        leadership.take(told(lease("me_1", "2")))  # seen again, but not renewed
        assert leadership.left_s() == pytest.approx(1)
        clock.now += 2
        assert leadership.refusal() == f"the lease {LEASE} was not renewed in time"
        leadership.take(told(lease("me_1", "3")))
        assert leadership.refusal() is None

    asyncio.run(run())


def test_a_term_that_ends_while_it_is_prepared_is_not_served() -> None:
    async def run() -> None:
        gates = [asyncio.Event(), asyncio.Event()]
        waiting = list(gates)

        async def rebuild() -> None:
            await waiting.pop(0).wait()

        leadership = Leadership("me", LEASE, rebuild, Clock())
        leadership.take(told(lease("me_1", "1", transitions=1)))
        await asyncio.sleep(0)
        leadership.take(told(lease("other", "2", transitions=2)))
        leadership.take(told(lease("me_1", "3", transitions=3)))  # A -> B -> A
        gates[0].set()
        await asyncio.sleep(0.01)
        assert leadership.refusal() == "reservations are being read anew from the pods"
        gates[1].set()
        await asyncio.sleep(0.01)
        assert leadership.refusal() is None

    asyncio.run(run())


# What the answer to a Binding means.


def bind(served: Served, node: str = "n0") -> str:
    item = pod("a", spec(10))
    served.cluster.see(item, ChangeType.ADDED)

    async def run() -> str:
        await served.lead()
        return await served.binds.bind(BindRequest("ns", "a", "uid-a", node))

    return asyncio.run(run())


def as_bound(node: str, effective: str) -> dict[str, Any]:
    annotations = {"tensor-fusion.ai/effective": effective}
    return {"metadata": {"uid": "uid-a", "annotations": annotations}, "spec": {"nodeName": node}}


UNBOUND = {"metadata": {"uid": "uid-a"}, "spec": {}}
TIMEOUT, CONFLICT = ApiUnreachable("server", TimeoutError()), ApiError(409, "Conflict", "already assigned")


@pytest.mark.parametrize(
    ("answers", "held"),
    [
        ([{}], State.COMMITTED),
        ([ApiError(403, "Forbidden", "policy")], None),
        ([ApiError(404, "NotFound", "pod")], None),
        ([CONFLICT, ApiError(404, "NotFound", "pod")], None),
        ([CONFLICT, {"metadata": {"uid": "another"}, "spec": {}}], None),
        ([CONFLICT, as_bound("n9", "x")], None),
        ([ApiError(500, "InternalError", "etcd"), UNBOUND, UNBOUND, UNBOUND], State.COMMITTED),
        ([TIMEOUT, TIMEOUT, TIMEOUT, TIMEOUT], State.COMMITTED),
    ],
)
def test_a_refusal_gives_the_card_back_and_doubt_keeps_it(answers: list[Any], held: State | None) -> None:
    served = Served(*answers)
    error = bind(served)
    assert bool(error) == (answers != [{}])
    entry = served.cluster.state.ledger.get("uid-a")
    assert (entry.state if entry else None) == held


def test_a_binding_whose_answer_was_lost_is_found_on_the_pod() -> None:
    served = Served(TIMEOUT)
    original = served.api.get

    async def look(*where: Any) -> dict[str, Any]:
        if served.api.answers:
            return await original()
        return as_bound("n0", served.api.created[0]["metadata"]["annotations"]["tensor-fusion.ai/effective"])

    served.api.get = look  # type: ignore[method-assign]
    assert bind(served) == ""


def test_no_binding_is_begun_near_the_end_of_the_lease() -> None:
    served = Served()

    async def run() -> str:
        await served.lead()
        served.cluster.clock.now += 14
        item = pod("a", spec(10))
        served.cluster.see(item, ChangeType.ADDED)
        return await served.binds.bind(BindRequest("ns", "a", "uid-a", "n0"))

    assert asyncio.run(run()) == "the scheduler's lease is about to end"
    assert not served.api.created
    assert served.cluster.free_gib() == [80, 80]


def test_a_node_that_is_full_by_now_is_refused_at_bind() -> None:
    served = Served()
    served.cluster.run("big", spec(80, gpu_indices=(0,)))
    taken = next(entry.reservation.node for entry in served.cluster.state.ledger)
    assert bind(served, taken) == f"not enough free GPU memory on {taken}, by now"
