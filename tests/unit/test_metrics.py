"""The table of metrics is what the programs show, and its names are as Prometheus wants them."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from decimal import Decimal

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family

from tensorfusion_iac.admission.cluster import Cluster
from tensorfusion_iac.admission.grey import GreyRelease
from tensorfusion_iac.admission.metrics import Metrics as AdmissionMetrics
from tensorfusion_iac.admission.server import Server
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.enforcer import ContainerUse, Seen
from tensorfusion_iac.agent.health import Health
from tensorfusion_iac.agent.metrics import AgentMetrics, Snapshot
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.metrics import METRICS, Metric, Program, Type, of
from tensorfusion_iac.controller.metrics import Statuses
from tensorfusion_iac.controller.program import Controller
from tensorfusion_iac.controller.program import Settings as ControllerSettings
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.credentials import Credentials
from tensorfusion_iac.scheduling.program import Scheduler
from tensorfusion_iac.scheduling.program import Settings as SchedulerSettings


def client() -> Client:
    """Never asked: the programs are made, and not run."""
    return Client(Credentials("https://127.0.0.1:1", ssl.create_default_context(), lambda: None))


def webhook_registry() -> CollectorRegistry:
    made = AdmissionMetrics()
    Server(Webhook(Cluster(client()), GreyRelease(client(), "ns")), made)
    made.watch(metrics.ADMISSION_CERTIFICATE_EXPIRY, lambda: 0.0)  # as the program does once it has a certificate
    return made.registry


def agent_registry() -> CollectorRegistry:
    """With a card and a pod for which there is something to say of everything."""
    card, place = Card(0, "GPU-1", "NVIDIA A100-SXM4-80GB", 80), ("u", "GPU-1")
    limits = {"GPU-1": CardLimits(0.1, 0.5, 1, 2, Decimal(3))}
    pod = NodePod("u", "ml", "chat-0", QoS.HIGH, Isolation.SOFT, limits)
    use = ContainerUse("u", "main", "GPU-1", 0.25, 7, 0.1)
    seen = Seen((use,), {"GPU-1": 30}, unreachable=frozenset({place}), ran={"u": 0.75}, targets={place: 0.5})
    made = AgentMetrics()
    made.snapshot = Snapshot(
        (card,), {"GPU-1": Health()}, {"GPU-1": 9}, {"u": pod}, {place: "vram=driver,compute=freezer"}, seen, {"GPU-1": "node-1"}
    )
    registry = CollectorRegistry()
    registry.register(made)
    return registry


def registry_of(program: Program) -> CollectorRegistry:
    match program:
        case Program.WEBHOOK:
            return webhook_registry()
        case Program.SCHEDULER:
            return Scheduler(client(), SchedulerSettings("here")).metrics.registry
        case Program.CONTROLLER:
            return Controller(client(), ControllerSettings()).metrics.registry
        case Program.AGENT:
            return agent_registry()


def shown(registry: CollectorRegistry) -> Mapping[str, Family]:
    """The families by the name that a query says; `process_*` are the client library's."""
    found = {}
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.startswith("process_"):
            found[name] = family
    return found


@pytest.mark.parametrize("program", Program)
def test_a_program_shows_exactly_the_metrics_of_the_table(program: Program) -> None:
    families = shown(registry_of(program))
    assert set(families) == {metric.name for metric in of(program)}
    for metric in of(program):
        assert (families[metric.name].type, families[metric.name].documentation) == (metric.type.value, metric.help)


@pytest.mark.parametrize("program", Program)
def test_every_sample_has_the_labels_of_the_table(program: Program) -> None:
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for name, family in shown(registry_of(program)).items():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[name], sample


def test_the_agent_has_a_sample_of_every_metric() -> None:
    values = {name: family.samples[0].value for name, family in shown(agent_registry()).items()}
    assert set(values) == {metric.name for metric in of(Program.AGENT)}
    assert (values[metrics.POD_COMPUTE.name], values[metrics.POD_FROZEN.name]) == (25.0, 0.25)
    assert values[metrics.POD_TFLOPS.name] == 0.25 * 312


def test_the_controller_tells_what_statuses_say() -> None:
    statuses = Statuses(
        pools=[
            {"metadata": {"name": "p"}, "status": {
                "readyNodes": 2, "notReadyNodes": 1, "totalGPUs": 24, "totalTFlops": "7488", "availableTFlops": "1500m",
                "totalVRAM": "2Gi", "availableVRAM": "1Gi",
            }},
            {"metadata": {"name": "new"}},
        ],
        workloads=[{"metadata": {"name": "chat", "namespace": "ml"}, "status": {"workerCount": 3, "readyWorkers": 2}}],
        quotas=[{"metadata": {"name": "q", "namespace": "ml"}, "status": {"availablePercent": {"tflops": "40", "vram": "odd"}}}],
    )  # fmt: skip
    found = {
        (sample.name, tuple(sample.labels.values())): sample.value for family in statuses.collect() for sample in family.samples
    }
    assert found == {
        ("tensor_fusion_pool_nodes", ("p", "ready")): 2,
        ("tensor_fusion_pool_nodes", ("p", "not-ready")): 1,
        ("tensor_fusion_pool_gpus", ("p",)): 24,
        ("tensor_fusion_pool_tflops", ("p", "total")): 7488,
        ("tensor_fusion_pool_tflops", ("p", "available")): 1.5,
        ("tensor_fusion_pool_vram_bytes", ("p", "total")): 2 * 2**30,
        ("tensor_fusion_pool_vram_bytes", ("p", "available")): 2**30,
        ("tensor_fusion_workload_workers", ("ml", "chat", "wanted")): 3,
        ("tensor_fusion_workload_workers", ("ml", "chat", "ready")): 2,
        ("tensor_fusion_quota_available_percent", ("ml", "tflops")): 40,
    }


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Metric) -> None:
    assert re.fullmatch(r"tensor_fusion(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    suffixes = {"seconds": "_seconds", "bytes": "_bytes", "percent": "_percent", "ratio": "_ratio", "FP16 TFLOPS": "_tflops"}
    assert not metric.unit or metric.name.endswith(suffixes[metric.unit])
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)
    assert metric.help.endswith(".")


def test_no_name_is_given_twice() -> None:
    names = [name for metric in METRICS for name in metric.series]
    assert len(set(names)) == len(names)
