"""Pods, owners and workers for the tests of the controller, as its watch caches hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard
from tensorfusion_iac.api.effective import to_text as effective_text
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Source, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.controller.owners import OwnerRef
from tensorfusion_iac.controller.pods import Member, kept

GIB = 2**30
NOW = "2026-01-01T00:00:00Z"
DEPLOYMENT = OwnerRef("Deployment", "chat", "uid-chat", "apps/v1")


def worker(**more: Any) -> WorkerSpec:
    plain = WorkerSpec(
        Mode.LOCAL, "p", "chat", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
        Compute(Unit.TFLOPS, Decimal(10)), Compute(Unit.TFLOPS, Decimal(20)), 4 * GIB, 8 * GIB,
    )  # fmt: skip
    return replace(plain, **more)


def effective(uuid: str, *, tflops: int = 10, gib: int = 4, limit_tflops: int = 20, limit_gib: int = 8) -> str:
    requests = Amount(Decimal(tflops), gib * GIB, Decimal(tflops))
    limits = Amount(Decimal(limit_tflops), limit_gib * GIB, Decimal(limit_tflops))
    return effective_text(Effective((EffectiveCard(uuid, requests, limits),)))


def pod(
    name: str = "chat-0", *, spec: WorkerSpec | None = None, owner: OwnerRef | None = None, named: bool = False,
    node: str = "", phase: str = "Running", ready: bool = True, card: str | None = None, namespace: str = "ml",
    terminating: bool = False, annotations: Mapping[str, str] | None = None, **metadata: Any,
) -> dict[str, Any]:  # fmt: skip
    """A pod as the cache keeps it."""
    sources = {"workload": Source.ANNOTATION if named else Source.OWNER}
    marks = {names.key("resolved"): canonical(to_json(spec or worker(), sources))} | dict(annotations or {})
    if card is not None:
        marks[names.key("effective")] = effective(card)
    item = {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": NOW,
            "annotations": marks, **({"ownerReferences": [owner.reference(controller=True)]} if owner else {}),
            **({"deletionTimestamp": NOW} if terminating else {}), **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }  # fmt: skip
    return kept(item)


def member(name: str = "chat-0", **more: Any) -> Member:
    plain = Member(
        f"uid-{name}", "ml", name, DEPLOYMENT, worker(), named=False, phase="Running", ready=True, terminating=False,
        created=NOW, node="n0", template_hash="h1",
    )  # fmt: skip
    return replace(plain, **more)
