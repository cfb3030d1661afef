"""The client and worker containers that a mode needs beside the user's own (SPEC §2a).

Standalone: the sidecar `tensor-fusion-worker` of the pool's worker image, which alone holds the devices. Clients of it and
of remote workers get the client library from an init container of the pool's client image. All of them keep to the
`restricted` Pod Security level, so that a pod which it admits stays admitted.
"""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.admission import environment
from tensorfusion_iac.admission.draft import Draft
from tensorfusion_iac.api import GPUPool, Mode, WorkerSpec
from tensorfusion_iac.api.names import CLIENT_CONTAINER, SYSTEM_NAMESPACE, WORKER_CONTAINER
from tensorfusion_iac.api.resources.gpupool import ClientComponent

LIBRARY_VOLUME = "tensor-fusion-library"
LIBRARY_PATH = "/tensor-fusion"
PRELOAD_FILE = "/etc/ld.so.preload"
SOCKET_VOLUME = "tensor-fusion-socket"
SOCKET_PATH = "/run/tensor-fusion/worker"
SOCKET_URL = f"unix://{SOCKET_PATH}/worker.sock"
OPERATOR_ENDPOINT = f"http://tensor-fusion-controller.{SYSTEM_NAMESPACE}.svc"
"""Whom remote clients ask where the pool names no `client.operatorEndpoint`."""

_UNPRIVILEGED_UID = 65532
_CONFINED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": _UNPRIVILEGED_UID,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CLIENT_SIZE = {"cpu": "20m", "memory": "64Mi"}
_WORKER_REQUESTS = {"cpu": "50m", "memory": "128Mi"}


def add_components(draft: Draft, worker: WorkerSpec, pool: GPUPool | None) -> None:
    """Add what the mode needs from the pool's images; local pods get the client library only if the pool has an image."""
    components = pool.spec.component_config if pool is not None else None
    client = (components.client if components else None) or ClientComponent()
    worker_image = components.worker.image if components and components.worker else None
    added = []
    if client.image and WORKER_CONTAINER not in worker.containers:  # the worker itself is no client
        added.append(_client(client.image))
        _give_library(draft, worker)
    if worker.mode is Mode.STANDALONE and worker_image:
        added.append(_sidecar(worker_image, worker))
        _give_socket(draft, worker)
    draft.add_init_containers(*added)
    _connect(draft, worker, client)


def _client(image: str) -> dict[str, Any]:
    return {
        "name": CLIENT_CONTAINER,
        "image": image,
        "env": [environment.literal(environment.LIBRARY_DIRECTORY, LIBRARY_PATH)],
        "resources": {"limits": dict(_CLIENT_SIZE), "requests": dict(_CLIENT_SIZE)},
        "securityContext": {**_CONFINED, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": LIBRARY_VOLUME, "mountPath": LIBRARY_PATH}],
    }


def _sidecar(image: str, worker: WorkerSpec) -> dict[str, Any]:
    """A native sidecar: it runs before the user's containers, and does not keep a Job from ending."""
    return {
        "name": WORKER_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "env": [environment.literal(environment.WORKER_LISTEN, SOCKET_URL), *_disabled(worker)],
        "resources": {"requests": dict(_WORKER_REQUESTS)},
        "securityContext": dict(_CONFINED),
        "volumeMounts": [{"name": SOCKET_VOLUME, "mountPath": SOCKET_PATH}],
    }


def _give_library(draft: Draft, worker: WorkerSpec) -> None:
    draft.add_volume({"name": LIBRARY_VOLUME, "emptyDir": {}})
    for container in draft.every_container():
        if container["name"] in worker.containers:
            draft.mount(container, {"name": LIBRARY_VOLUME, "mountPath": LIBRARY_PATH, "readOnly": True})
            preload = {"name": LIBRARY_VOLUME, "mountPath": PRELOAD_FILE, "subPath": "ld.so.preload", "readOnly": True}
            draft.mount(container, preload)


def _give_socket(draft: Draft, worker: WorkerSpec) -> None:
    draft.add_volume({"name": SOCKET_VOLUME, "emptyDir": {}})
    for container in draft.every_container():
        if container["name"] in worker.containers:
            draft.mount(container, {"name": SOCKET_VOLUME, "mountPath": SOCKET_PATH})


def _connect(draft: Draft, worker: WorkerSpec, client: ClientComponent) -> None:
    """Tell the injected containers where their worker is, and the local ones what is turned off."""
    entries = _connection(worker, client)
    for container in draft.every_container():
        if container["name"] in worker.containers:
            environment.put(draft, container, entries)


def _connection(worker: WorkerSpec, client: ClientComponent) -> list[environment.Entry]:
    if worker.mode is Mode.LOCAL:
        return _disabled(worker)
    if worker.mode is Mode.STANDALONE:
        return [environment.literal(environment.CONNECTION_URL, SOCKET_URL)]
    endpoint = (client.operator_endpoint or OPERATOR_ENDPOINT).rstrip("/")
    name, namespace = environment.CONNECTION_NAME, environment.CONNECTION_NAMESPACE
    return [
        environment.from_field(name, "metadata.name"),
        environment.from_field(namespace, "metadata.namespace"),
        environment.literal(environment.GET_CONNECTION_URL, f"{endpoint}/api/connection?name=$({name})&namespace=$({namespace})"),
        *_disabled(worker),
    ]


def _disabled(worker: WorkerSpec) -> list[environment.Entry]:
    if not worker.disable_features:
        return []
    return [environment.literal(environment.DISABLE_FEATURES, ",".join(worker.disable_features))]
