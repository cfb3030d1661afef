"""A bind from the scheduler's word to the pod's annotations: the books decide, then one Binding, and a release on failure."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.record import bind_annotations
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.scheduling.binding import Binder, Outcome
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.leadership import Leadership
from tensorfusion_iac.scheduling.partitions import WAIT_S, Partitions
from tensorfusion_iac.scheduling.pods import GpuPod, NotOurPodError, read_pod
from tensorfusion_iac.scheduling.state import UNSHOWN_S, ClusterState
from tensorfusion_iac.scheduling.wire import BindRequest

log = logging.getLogger(__name__)

BIND_TIMEOUT_S = 10.0
LEAST_LEFT_S = 2.0
"""A Binding is not begun when the lease has less left than this: it could arrive in the next holder's term."""


class PodBinds:
    """Carries out bind calls. `meet`: waits for the other members of a pod's group; in words if they don't come."""

    def __init__(
        self,
        client: Client,
        state: ClusterState,
        decider: Decider,
        leadership: Leadership,
        partitions: Partitions,
        meet: Callable[[GpuPod], Awaitable[str]],
    ) -> None:
        self._client, self._state, self._decider, self._leadership = client, state, decider, leadership
        self._partitions, self._meet, self._binder = partitions, meet, Binder(client)
        self._under_way: set[str] = set()

    async def bind(self, request: BindRequest) -> str:
        """Bind a pod; in words why it could not be, empty if it was."""
        if request.uid in self._under_way:
            return "the pod is being bound already"
        self._under_way.add(request.uid)
        try:
            pod = await self._pod(request)
            if isinstance(pod, str):
                self._drop_hold(request.uid)
                return pod
            return await self._bind(pod, request.node)
        finally:
            self._under_way.discard(request.uid)

    async def _pod(self, request: BindRequest) -> GpuPod | str:
        """The pod from the cache; read live if it is newer than the cache."""
        pod = self._state.pods.get(request.uid)
        if pod is not None:
            return pod
        if request.uid in self._state.gone:
            return "the pod is gone"
        try:
            raw = await self._client.get(PODS, request.name, request.namespace)
            found = read_pod(raw)
        except ApiError as error:
            return "the pod is gone" if error.not_found else str(error)
        except (KubeError, NotOurPodError) as error:
            return str(error)
        return found if found.uid == request.uid else "the pod is gone; another has its name"

    async def _bind(self, pod: GpuPod, node: str) -> str:
        reserved = self._decider.reserve_on(pod, node)
        if isinstance(reserved, str):
            return reserved
        was = self._state.ledger.get(pod.uid)
        if was is not None and was.state is State.CONFIRMED:
            return ""  # a repeated call: it is bound with these GPUs
        if pod.worker.gang is not None and was is not None and was.state is State.HELD:
            if why := await self._meet(pod):
                self._drop_hold(pod.uid)
                return why
            if self._state.ledger.get(pod.uid) is None:
                return "the pod is gone"
        self._state.ledger.commit(pod.uid, self._state.clock() + self._partitions_wait_s(pod) + UNSHOWN_S)
        problem = await self._write(pod, reserved)
        if problem:
            return problem
        self._state.tell_cards(pod.uid)
        return ""

    async def _write(self, pod: GpuPod, reserved: Reservation) -> str:
        instances: dict[str, str] = {}
        if pod.claim.partitioned:
            made = await self._partitions.provide(reserved)
            if made is None:
                self._state.release(pod.uid)
                return "the node's agent did not make the hardware partition in time"
            instances = made
        cards = {share.uuid: card for share in reserved.shares if (card := self._state.inventory.card(share.uuid))}
        if len(cards) != len(reserved.shares):
            self._state.release(pod.uid)
            return "a GPU has vanished"
        left_s = self._leadership.left_s()
        if left_s < LEAST_LEFT_S:
            self._state.release(pod.uid)
            return "the scheduler's lease is about to end"
        annotations = bind_annotations(pod.worker, reserved, cards, instances)
        outcome, why = await self._binder.bind(
            pod.namespace, pod.name, pod.uid, reserved.node, annotations, min(BIND_TIMEOUT_S, left_s)
        )
        if outcome is Outcome.REFUSED:
            self._state.release(pod.uid)
        elif self._state.ledger.get(pod.uid) is not None and not self._is_shown(pod.uid):
            # What is bound, or may be, stands until the watch has had time to show it.
            self._state.ledger.commit(pod.uid, self._state.clock() + UNSHOWN_S)
        return why

    def _drop_hold(self, uid: str) -> None:
        entry = self._state.ledger.get(uid)
        if entry is not None and entry.state is State.HELD:
            self._state.release(uid)

    def _is_shown(self, uid: str) -> bool:
        entry = self._state.ledger.get(uid)
        return entry is not None and entry.state is State.CONFIRMED

    @staticmethod
    def _partitions_wait_s(pod: GpuPod) -> float:
        return WAIT_S if pod.claim.partitioned else 0.0
