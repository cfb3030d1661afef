"""A resource monitor and engine that only take notes: what `compile` puts in pulumi's place (research/pulumi.md §4).

It answers as a preview does: what the program says is known, what a cluster would add is not. Unlike pulumi's own mocks it
runs transforms, as the engine would. Loaded by path from `record.py`, since the program's Python need not have this package.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from typing import Any

import yaml
from google.protobuf import empty_pb2, json_format, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime._callbacks import _CallbackServicer
from pulumi.runtime.mocks import MockMonitor, MockSettings
from pulumi.runtime.proto import provider_pb2, resource_pb2
from pulumi.runtime.rpc import UNKNOWN

_TRANSFORM_TIMEOUT_S = 60
_SEVERITIES = ("debug", "info", "warning", "error")
_STACK = "pulumi:pulumi:Stack"
_messages: Any = resource_pb2  # generated code, whose members no checker knows


def settings(project: str, stack: str, notes: dict[str, Any], cluster_wide: Collection[str]) -> Any:
    """The runtime's settings by which a program talks to us; `notes` are filled while it runs.

    `cluster_wide` are the kinds whose objects have no namespace.
    """
    monitor: Any = Monitor(notes, cluster_wide)
    make: Any = MockSettings
    features = set(monitor.GetDeploymentInfo(None).supportedFeatures)
    return make(
        monitor=monitor, monitor_features=features, engine=Engine(notes), project=project, stack=stack, dry_run=True,
        organization="organization", callbacks=None, root_directory=None,
    )  # fmt: skip


class Engine:
    """Takes what the program logs."""

    def __init__(self, notes: dict[str, Any]) -> None:
        self.notes = notes

    def Log(self, request: Any) -> None:  # noqa: N802 - pulumi's name
        """Note a message, unless it is for debugging."""
        severity = _SEVERITIES[request.severity]
        if severity != "debug":
            self.notes["logs"].append({"severity": severity, "message": request.message, "urn": request.urn})


class Monitor(MockMonitor):
    """Takes what the program declares. Called from several threads."""

    def __init__(self, notes: dict[str, Any], cluster_wide: Collection[str]) -> None:
        nothing: Any = None
        super().__init__(nothing)
        self.notes, self.lock = notes, threading.Lock()
        self.cluster_wide = cluster_wide
        self.provider_namespaces: dict[str, str] = {}  # by the provider's URN
        self.stack_transforms: list[Any] = []
        self.transforms: dict[str, list[Any]] = {}  # by URN: the resource's own, then those around it

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        """Note a resource, after its transforms; its state is what it was given."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK:
            return _messages.RegisterResourceResponse(urn=urn)
        self.transforms[urn] = [*request.transforms, *self.transforms.get(request.parent, ())]
        properties = self._transformed(request, [*self.transforms[urn], *self.stack_transforms])
        self._note(urn, request, properties, custom=request.custom, remote=request.remote, read=False)
        if request.type == "pulumi:providers:kubernetes" and "namespace" in properties.fields:
            self.provider_namespaces[urn] = properties.fields["namespace"].string_value
        return _messages.RegisterResourceResponse(urn=urn, object=self._state(request, properties))

    def ReadResource(self, request: Any) -> Any:  # noqa: N802
        """Note an object that is only looked up. Another stack's outputs are not known here."""
        urn = self.make_urn(request.parent, request.type, request.name)
        self._note(urn, request, request.properties, custom=True, remote=False, read=True)
        properties = struct_pb2.Struct()
        properties.CopyFrom(request.properties)
        if request.type == "pulumi:pulumi:StackReference":
            properties["outputs"] = UNKNOWN
        return _messages.ReadResourceResponse(urn=urn, properties=properties)

    def RegisterStackTransform(self, request: Any) -> Any:  # noqa: N802
        """Remember a transform of every resource."""
        self.stack_transforms.append(request)
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> Any:  # noqa: N802
        """Answer a provider's function: YAML is read here, others are not called."""
        answer = struct_pb2.Struct()
        if request.tok == "kubernetes:yaml:decode":
            documents = yaml.safe_load_all(request.args["text"])
            answer.update({"result": [item for item in documents if isinstance(item, dict)]})
        else:
            self._not_called(request.tok)
        return _messages.ResourceInvokeResponse(**{"return": answer})

    def Call(self, request: Any) -> Any:  # noqa: N802
        """Answer a method of a remote component with nothing."""
        self._not_called(request.tok)
        empty: Any = provider_pb2
        return empty.CallResponse()

    def _not_called(self, token: str) -> None:
        with self.lock:
            message = f"{token} is a function of a provider; it was not called, and its result is empty"
            self.notes["logs"].append({"severity": "warning", "urn": "", "message": message})

    def _note(self, urn: str, request: Any, properties: Any, *, custom: bool, remote: bool, read: bool) -> None:
        note = {
            "urn": urn, "type": request.type, "name": request.name, "custom": custom, "remote": remote, "read": read,
            "provider": request.provider, "properties": json_format.MessageToDict(properties),
        }  # fmt: skip
        with self.lock:
            self.notes["resources"].append(note)

    def _transformed(self, request: Any, transforms: list[Any]) -> Any:
        """The properties after all transforms, each run in the program's event loop, as its callback server would."""
        properties = request.object
        for callback in transforms:
            message = _messages.TransformRequest(
                type=request.type, name=request.name, custom=request.custom, parent=request.parent, properties=properties
            )
            for servicer in _CallbackServicer._servicers:
                function: Any = servicer._callbacks.get(callback.token)
                if function is not None:
                    running: Any = asyncio.run_coroutine_threadsafe(function(message.SerializeToString()), servicer._loop)
                    properties = running.result(_TRANSFORM_TIMEOUT_S).properties
        return properties

    def _state(self, request: Any, properties: Any) -> Any:
        """The state of a resource: what was given; and a Kubernetes object has a name and, if it can, a namespace."""
        state = struct_pb2.Struct()
        state.CopyFrom(properties)
        if not request.custom or "kind" not in state.fields or not request.type.startswith("kubernetes:"):
            return state
        if "metadata" not in state.fields:
            state["metadata"] = {}
        if not state.fields["metadata"].HasField("struct_value"):
            return state
        metadata = state.fields["metadata"].struct_value
        if not {"name", "generateName"} & set(metadata.fields):
            metadata["name"] = request.name
        if "namespace" not in metadata.fields and state["kind"] not in self.cluster_wide:
            metadata["namespace"] = self.provider_namespaces.get(request.provider.rpartition("::")[0]) or "default"
        return state
