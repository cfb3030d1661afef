"""A cluster in which nothing is wrong, as `doctor` reads it, for tests to spoil one thing at a time."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from tensorfusion_iac.admission.agent_policy import agent_policy_objects
from tensorfusion_iac.admission.configuration import CONFIGURATION, Service, webhook_configurations
from tensorfusion_iac.admission.policies import policy_objects
from tensorfusion_iac.admission.rotation import Keys, Lives, advance, to_secret
from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.kube.resource import (
    CRDS,
    GPU_NODES,
    GPU_POOLS,
    GPUS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tensorfusion_iac.operations.observed import Observed
from tensorfusion_iac.operations.observing import BINDINGS, OWN_DEPLOYMENTS, POLICIES

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ENFORCE = "pod-security.kubernetes.io/enforce"
Object = dict[str, Any]


def lease(namespace: str, name: str, age_s: float = 3.0, holder: str = "one", life_s: int = 15) -> Object:
    renewed = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": life_s, "renewTime": renewed}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}


def node(name: str = "node-1", **status: Any) -> Object:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {"gpu": "yes"}}, "spec": {}, "status": ready | status}


def gpu_node(name: str = "node-1", **status: Any) -> Object:
    told = {"agentVersion": "1.0", "injectionTier": "env", "cgroups": "v2", "message": ""}
    return {"metadata": {"name": name}, "status": told | status}


def gpu(index: int = 0, node_name: str = "node-1", **status: Any) -> Object:
    uuid = f"GPU-{node_name}-{index}"
    able = {"driverVersion": "615.10", "vramLimit": "driver", "computeLimit": "freezer", "mps": True, "mig": False}
    told = {
        "uuid": uuid, "nodeName": node_name, "index": index, "model": "L40S", "health": "Healthy", "usedBy": "tensor-fusion",
        "capacity": {"tflops": "362", "vram": "48Gi"}, "capabilities": able,
    }  # fmt: skip
    return {"metadata": {"name": uuid.lower()}, "status": told | status}


def pool(name: str = "default-pool", selector: Mapping[str, str] | None = None, **spec: Any) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in (selector or {}).items()]
    manager = {"nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": terms}}} if terms else {}
    return {"metadata": {"name": name}, "spec": {"defaultUsingLocalGPU": True, **manager, **spec}, "status": {"phase": "Running"}}


def deployment(name: str, wanted: int = 2, ready: int = 2, message: str = "") -> Object:
    conditions = [{"type": "Available", "status": "False", "message": message}]
    return {
        "metadata": {"name": name},
        "spec": {"replicas": wanted},
        "status": {"readyReplicas": ready, "conditions": conditions},
    }


@cache
def keys(began: datetime = NOW - timedelta(days=1)) -> Keys:
    made = advance(None, ["tensor-fusion-webhook.tensor-fusion-system.svc"], began, Lives(), trusted_everywhere=False)
    assert made is not None
    return made


def secret(of: Keys | None = None) -> Object:
    made = to_secret(of or keys())
    data = {name: value for name, value in made["data"].items() if value}
    return {"metadata": {"namespace": "tensor-fusion-system", "name": "tensor-fusion-webhook-tls"}, "data": data}


def configuration(kind: str, of: Keys | None = None) -> Object:
    made = next(item for item in webhook_configurations(Service()) if item["kind"] == kind)
    bundle = base64.b64encode((of or keys()).bundle.encode()).decode()
    hooks = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": bundle}} for hook in made["webhooks"]]
    return {**made, "webhooks": hooks}


@cache
def definitions() -> list[Object]:
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return [{**definition, "status": established} for definition in crds()]


@cache
def admission_policies() -> list[Object]:
    return [*policy_objects(), *agent_policy_objects()]


def healthy(**changes: Any) -> Observed:
    """`changes` are members of Observed; `objects` replaces those kinds alone."""
    policies = admission_policies()
    namespaces = {"tensor-fusion-system": "restricted", "tensor-fusion-agent": "privileged"}
    objects: dict[Resource, Sequence[Object]] = {
        CRDS: definitions(),
        NAMESPACES: [
            *({"metadata": {"name": name, "labels": {ENFORCE: level}}} for name, level in namespaces.items()),
            {"metadata": {"name": "ml", "labels": {"team": "ml"}}},
        ],
        NODES: [node(), {"metadata": {"name": "no-gpus"}, "status": {}}],
        MUTATING_WEBHOOKS: [configuration("MutatingWebhookConfiguration")],
        VALIDATING_WEBHOOKS: [configuration("ValidatingWebhookConfiguration")],
        POLICIES: [item for item in policies if item["kind"] == POLICIES.kind],
        BINDINGS: [item for item in policies if item["kind"] == BINDINGS.kind],
        SECRETS: [secret()],
        LEASES: [
            lease("tensor-fusion-system", "tensor-fusion-scheduler"),
            lease("tensor-fusion-system", "tensor-fusion-controller"),
            lease("kube-node-lease", "tensor-fusion-agent-node-1", life_s=90),
        ],
        OWN_DEPLOYMENTS: [deployment(name) for name in (CONFIGURATION, "tensor-fusion-controller", "tensor-fusion-scheduler")],
        GPU_POOLS: [pool(selector={"gpu": "yes"})],
        GPU_NODES: [gpu_node()],
        GPUS: [gpu(0), gpu(1)],
    }
    objects |= changes.pop("objects", {})
    return Observed(now=NOW, objects=objects, **changes)
