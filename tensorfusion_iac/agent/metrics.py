"""The agent's Prometheus metrics: per card and per pod, container and card, made from what was seen when they are asked for.

Names and meanings are those of `api/metrics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.enforcer import Seen
from tensorfusion_iac.agent.health import Health, State
from tensorfusion_iac.agent.objects import model_of
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.metrics import Metric


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that metrics tell, as of one moment. `nodes`: each card's node, by UUID."""

    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    used_bytes: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, NodePod] = field(default_factory=dict)
    enforced_by: Mapping[tuple[str, str], str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    nodes: Mapping[str, str] = field(default_factory=dict)


class AgentMetrics(Collector):
    """Gives the newest snapshot to each scrape."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, with their values of now."""
        yield from _of_cards(self.snapshot)
        yield from _of_pods(self.snapshot)


def _of_cards(now: Snapshot) -> Iterator[GaugeMetricFamily]:
    busy, used, total, healthy = (
        _gauge(metric) for metric in (metrics.GPU_BUSY, metrics.GPU_VRAM_USED, metrics.GPU_VRAM_USABLE, metrics.GPU_HEALTHY)
    )
    for card in now.cards:
        labels = (card.uuid, str(card.index), model_of(card)[0], now.nodes.get(card.uuid, ""))
        if (percent := now.seen.busy.get(card.uuid)) is not None:
            busy.add_metric(labels, percent)
        if card.uuid in now.used_bytes:
            used.add_metric(labels, now.used_bytes[card.uuid])
        total.add_metric(labels, card.usable_bytes)
        healthy.add_metric(labels, now.health.get(card.uuid, Health()).state is State.HEALTHY)
    yield from (busy, used, total, healthy)


def _of_pods(now: Snapshot) -> Iterator[GaugeMetricFamily]:
    compute, tflops, target = _gauge(metrics.POD_COMPUTE), _gauge(metrics.POD_TFLOPS), _gauge(metrics.POD_COMPUTE_TARGET)
    vram, limit, frozen = _gauge(metrics.POD_VRAM_USED), _gauge(metrics.POD_VRAM_LIMIT), _gauge(metrics.POD_FROZEN)
    unreachable, age = _gauge(metrics.POD_UNREACHABLE), _gauge(metrics.POD_SAMPLE_AGE)
    enforced = _gauge(metrics.POD_ENFORCEMENT)
    by_uuid = {card.uuid: card for card in now.cards}
    for use in now.seen.containers:
        pod = now.pods.get(use.pod_uid)
        if pod is None:
            continue
        labels, place = (pod.namespace, pod.workload, pod.name, use.container, use.card), (use.pod_uid, use.card)
        compute.add_metric(labels, use.compute * 100)
        vram.add_metric(labels, use.vram_bytes)
        if use.card in by_uuid:
            tflops.add_metric(labels, use.compute * float(model_of(by_uuid[use.card])[1]))
        if use.card in pod.cards:
            limit.add_metric(labels, pod.cards[use.card].vram_limit_bytes)
        if place in now.seen.targets:
            target.add_metric(labels, now.seen.targets[place] * 100)
        frozen.add_metric(labels, 1 - now.seen.ran.get(use.pod_uid, 1.0))
        unreachable.add_metric(labels, place in now.seen.unreachable)
        if use.sample_age_s is not None:
            age.add_metric(labels, use.sample_age_s)
        if place in now.enforced_by:
            enforced.add_metric((*labels, now.enforced_by[place]), 1)
    yield from (compute, tflops, target, vram, limit, frozen, unreachable, age, enforced)


def _gauge(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
