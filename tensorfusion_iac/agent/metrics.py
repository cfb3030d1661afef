"""The agent's Prometheus metrics: per card and per pod, container and card, made from what was seen when they are asked for."""

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

_CARD = ("gpu", "index", "model")
_POD = ("namespace", "pod", "container", "gpu")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that metrics tell, as of one moment."""

    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    used_bytes: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, NodePod] = field(default_factory=dict)
    enforced_by: Mapping[tuple[str, str], str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)


class AgentMetrics(Collector):
    """Gives the newest snapshot to each scrape."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, with their values of now."""
        yield from _of_cards(self.snapshot)
        yield from _of_pods(self.snapshot)


def _of_cards(now: Snapshot) -> Iterator[GaugeMetricFamily]:
    busy = GaugeMetricFamily("tensorfusion_gpu_busy_percent", "How busy the card is, by its driver.", labels=_CARD)
    used = GaugeMetricFamily("tensorfusion_gpu_vram_used_bytes", "Memory in use on the card.", labels=_CARD)
    total = GaugeMetricFamily("tensorfusion_gpu_vram_usable_bytes", "Usable memory of the card.", labels=_CARD)
    healthy = GaugeMetricFamily("tensorfusion_gpu_healthy", "1 if the card takes new pods.", labels=_CARD)
    for card in now.cards:
        labels = (card.uuid, str(card.index), model_of(card)[0])
        if (percent := now.seen.busy.get(card.uuid)) is not None:
            busy.add_metric(labels, percent)
        if card.uuid in now.used_bytes:
            used.add_metric(labels, now.used_bytes[card.uuid])
        total.add_metric(labels, card.usable_bytes)
        healthy.add_metric(labels, now.health.get(card.uuid, Health()).state is State.HEALTHY)
    yield from (busy, used, total, healthy)


def _of_pods(now: Snapshot) -> Iterator[GaugeMetricFamily]:
    def gauge(name: str, text: str, *more: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"tensorfusion_pod_{name}", text, labels=(*_POD, *more))

    compute = gauge("compute_percent", "Compute used, percent of the card.")
    tflops = gauge("tflops", "Compute used, FP16 TFLOPS of the card's figure.")
    target = gauge("compute_target_percent", "What the pod may use now, percent of the card.")
    vram = gauge("vram_used_bytes", "Memory used on the card.")
    limit = gauge("vram_limit_bytes", "Memory limit on the card.")
    frozen = gauge("frozen_share", "The part of the time in which the pod was frozen.")
    unreachable = gauge("compute_limit_unreachable", "1 if the compute limit cannot be kept although all is done.")
    age = gauge("sample_age_seconds", "How old the newest utilisation sample is; an idle pod has none.")
    enforced = gauge("enforced_by", "1, with how the limits are held.", "enforced_by")
    by_uuid = {card.uuid: card for card in now.cards}
    for use in now.seen.containers:
        pod = now.pods.get(use.pod_uid)
        if pod is None:
            continue
        labels, place = (pod.namespace, pod.name, use.container, use.card), (use.pod_uid, use.card)
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
