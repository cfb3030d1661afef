"""Asks the agents what their pods use: their metrics through the API server, else their histories (docs/decisions/0010).

The API server hands a request on to an agent's pod, from wherever one sits. Agents that are no pods (the simulated ones) are
asked for their history, as the controller does, where they can be reached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from tensorfusion_iac.api.metrics import POD_COMPUTE, POD_VRAM_USED
from tensorfusion_iac.api.names import (
    AGENT_LEASE_NAMESPACE,
    AGENT_METRICS_PORT,
    AGENT_NAMESPACE,
    COMPONENT_LABEL,
    SYSTEM_NAMESPACE,
)
from tensorfusion_iac.controller.scaling import Row
from tensorfusion_iac.controller.usage import Agent, Usage, agent_of
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import LEASES, PODS
from tensorfusion_iac.operations.observed import Object, at, name_of, namespace_of
from tensorfusion_iac.operations.use import Sample

RECENT_S = 90.0
"""How old a row of a history may be: two of its half minutes, and some delay."""


async def samples(client: Client, pods: Iterable[Object]) -> list[Sample]:
    """What the agents that answer say. Raises KubeError if the API server cannot be reached."""
    known = {(namespace_of(pod), name_of(pod)): str(at(pod, "metadata", "uid")) for pod in pods}
    agents = [item for item in await _agent_pods(client) if at(item, "status", "phase") == "Running"]
    texts = await asyncio.gather(*(_metrics(client, name_of(item)) for item in agents))
    found = [sample for text in texts for sample in from_metrics(text, known)]
    answered = {str(at(item, "spec", "nodeName")) for item, text in zip(agents, texts, strict=True) if text}
    return [*found, *newest(await _histories(client, answered))]


async def _agent_pods(client: Client) -> list[dict[str, object]]:
    try:
        return (await client.list(PODS, AGENT_NAMESPACE)).items
    except ApiError:
        return []


async def _metrics(client: Client, pod: str) -> str:
    try:
        return await client.text(f"/api/v1/namespaces/{AGENT_NAMESPACE}/pods/{pod}:{AGENT_METRICS_PORT}/proxy/metrics")
    except KubeError:
        return ""


async def _histories(client: Client, answered: set[str]) -> list[Row]:
    try:
        leases = (await client.list(LEASES, AGENT_LEASE_NAMESPACE, label_selector=f"{COMPONENT_LABEL}=agent")).items
        agents: dict[str, Agent] = {}
        for lease in leases:
            agent = agent_of(lease)
            if agent is not None and agent.node not in answered:
                agents[name_of(lease)] = agent
        return await Usage(client, SYSTEM_NAMESPACE).ask(agents, time.time() - RECENT_S)
    except ApiError:
        return []  # no right to a token of the controller's


def from_metrics(text: str, pods: Mapping[tuple[str, str], str]) -> list[Sample]:
    """Samples in an agent's metrics; `pods`: UIDs by namespace and name. Containers of one pod are summed up."""
    compute: dict[tuple[str, str], float] = {}
    vram: dict[tuple[str, str], float] = {}
    wanted = {POD_COMPUTE.name: compute, POD_VRAM_USED.name: vram}
    for family in text_string_to_metric_families(text):
        if (into := wanted.get(family.name)) is None:
            continue
        for sample in family.samples:
            uid = pods.get((sample.labels.get("namespace", ""), sample.labels.get("pod", "")))
            if uid is not None:
                place = (uid, sample.labels.get("gpu", ""))
                into[place] = into.get(place, 0.0) + sample.value
    return [Sample(uid, gpu, percent, int(vram.get((uid, gpu), 0))) for (uid, gpu), percent in compute.items()]


def newest(rows: Iterable[Row]) -> list[Sample]:
    """The newest row of each pod and card."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = (row.pod_uid, row.gpu)
        if place not in found or found[place].begin_s < row.begin_s:
            found[place] = row
    return [Sample(row.pod_uid, row.gpu, row.compute * 100, row.vram_bytes) for row in found.values()]
