"""`TensorFusionConnection`: one remote client pod and the worker that serves it (SPEC §2a, §4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.resources.base import Column, Conditions, Kind, Model, Name, ObjectMeta, Status


class ConnectionSpec(Model):
    """Who connects to what."""

    workload_name: Name = Field(description="TensorFusionWorkload of the same namespace.")
    client_pod: Name = Field(default="", description="Pod that connects.")


class ConnectionStatus(Status):
    """Where the client finds its worker."""

    phase: Annotated[str, Field(json_schema_extra={"enum": ["Pending", "Running", "Failed", "Unknown"]})] | None = Field(
        default=None, description="Running once the client can connect."
    )
    connection_url: Annotated[str, Field(max_length=2048)] | None = Field(
        default=None, alias="connectionURL", description="Where the worker listens."
    )
    worker_name: Name | None = Field(default=None, description="Pod that serves the client.")
    conditions: Conditions | None = Field(default=None, description="Conditions of the connection.")


class TensorFusionConnection(Model):
    """A remote client and its worker."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "TensorFusionConnection"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: ConnectionSpec
    status: ConnectionStatus | None = None

    KIND: ClassVar = Kind(
        "TensorFusionConnection", "tensorfusionconnections", "tensorfusionconnection", ("tfconn",), "Namespaced",
        (
            Column("Phase", ".status.phase"),
            Column("Workload", ".spec.workloadName"),
            Column("Client", ".spec.clientPod"),
            Column("Worker", ".status.workerName"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "A remote client pod and the worker that serves it.",
    )  # fmt: skip
