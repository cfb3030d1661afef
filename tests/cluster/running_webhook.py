"""The real webhook, as a process beside the control plane, under its own service account, with all that it needs installed."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from running_plane import ControlPlane, tool

from tensorfusion_iac.admission.configuration import CONFIGURATION, Address, webhook_configurations
from tensorfusion_iac.admission.policies import policy_objects
from tensorfusion_iac.admission.server import MUTATE_PATH
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.components import platform
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import PODS

READY_S = 30.0
NAMESPACE = "admission-tests"
QUICK = Path(__file__).with_name("quick_webhook.py")
_IMAGES = {"worker": {"image": "worker:1"}, "client": {"image": "client:1"}}
POOLS = tuple(
    {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": name, "annotations": marks}, "spec": spec}
    for name, marks, spec in (
        ("default", {"tensor-fusion.ai/is-default-pool": "true"}, {"defaultUsingLocalGPU": True}),
        ("images", {}, {"defaultUsingLocalGPU": True, "componentConfig": _IMAGES}),
    )
)
"""A default pool with local GPUs, and one that can also serve standalone and remote pods."""


def apply(plane: ControlPlane, *items: dict[str, Any]) -> None:
    manifest = yaml.safe_dump_all(items)
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)


def install(plane: ControlPlane) -> None:
    """Everything but the webhook configurations."""
    plane.install_crds()
    apply(plane, *platform.namespaces())
    apply(plane, *platform.service_accounts(), *platform.webhook_rights(), *platform.priority_classes())
    apply(plane, *policy_objects())


def account_kubeconfig(plane: ControlPlane, folder: Path, account: str, namespace: str = SYSTEM_NAMESPACE) -> Path:
    """A kubeconfig with the rights of a service account, of ours by default."""
    token = plane.kubectl("create", "token", account, "-n", namespace, "--duration=10h").strip()
    config = yaml.safe_load(plane.kubeconfig.read_text())
    cluster = config["clusters"][0]
    made = {
        "apiVersion": "v1", "kind": "Config", "current-context": "it", "clusters": [cluster],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": cluster["name"], "user": "it"}}],
    }  # fmt: skip
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(made))
    return path


@dataclass
class Replica:
    """One running webhook."""

    process: subprocess.Popen[str]
    port: int
    log: list[str]


@contextmanager
def replica(kubeconfig: Path, identity: str, drain_s: float = 0.5, port: int = 0) -> Iterator[Replica]:
    """A webhook process, from when it is ready until the end of the block."""
    with _started([sys.executable, str(QUICK), str(kubeconfig), identity, str(drain_s), str(port)]) as found:
        yield found


@contextmanager
def served(kubeconfig: Path, identity: str, *options: str) -> Iterator[Replica]:
    """The same by the command line, as in a cluster."""
    program = [str(Path(sys.executable).with_name("tensorfusion")), "serve", "webhook", "--kubeconfig", str(kubeconfig)]
    with _started([*program, "--identity", identity, "--address", "127.0.0.1", "--port", "0", *options]) as found:
        yield found


@contextmanager
def _started(argv: list[str]) -> Iterator[Replica]:
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    found = Replica(process, 0, [])
    ready = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            found.log.append(line)
            if line.startswith("ready on port "):
                found.port = int(line.rsplit(maxsplit=1)[1])
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(READY_S), f"the webhook is not ready after {READY_S} s: {''.join(found.log)}"
        assert found.port, f"the webhook has ended: {''.join(found.log)}"
        yield found
    finally:
        process.terminate()
        process.wait(timeout=30)
        reader.join(timeout=5)
        if process.stderr is not None:
            process.stderr.close()


def any_certificate() -> ssl.SSLContext:
    """For questions on loopback in which nothing is secret."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def point_at(plane: ControlPlane, url: str) -> None:
    """Create the webhook configurations, and wait until the webhook has put its authority into them."""
    apply(plane, *webhook_configurations(Address(url)))
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        plane.kubectl(
            "wait", f"{kind}/{CONFIGURATION}", "--for=jsonpath={.webhooks[0].clientConfig.caBundle}", f"--timeout={READY_S}s"
        )


@contextmanager
def admitting(plane: ControlPlane, folder: Path) -> Iterator[Replica]:
    """Everything installed and one webhook running, for the length of the block."""
    install(plane)
    apply(plane, *POOLS, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with replica(account_kubeconfig(plane, folder, CONFIGURATION), "first") as running:
        point_at(plane, f"https://127.0.0.1:{running.port}")
        try:
            yield running
        finally:
            remove_configurations(plane)


def remove_configurations(plane: ControlPlane) -> None:
    plane.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", CONFIGURATION, "--ignore-not-found")


def pod(
    annotations: Mapping[str, str], *containers: dict[str, Any], name: str = "", namespace: str = NAMESPACE, **spec: Any
) -> dict[str, Any]:
    """An enabled pod; annotations by short key."""
    metadata = {
        "namespace": namespace, "labels": {ENABLED_LABEL: "true"},
        "annotations": {short if "/" in short else key(short): text for short, text in annotations.items()},
    }  # fmt: skip
    metadata |= {"name": name} if name else {"generateName": "it-"}
    made = list(containers) or [{"name": "main", "image": "app:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": made, **spec}}


async def tried(client: Client, item: dict[str, Any]) -> dict[str, Any] | ApiError:
    """What would become of a pod (a dry run): the pod as the API server would store it, or its refusal."""
    try:
        return await client.create(PODS, item, item["metadata"]["namespace"], query={"dryRun": "All"})
    except ApiError as error:
        return error


def resolved(item: dict[str, Any] | ApiError) -> dict[str, Any]:
    """The worker in an admitted pod; fails the test if it was refused."""
    assert not isinstance(item, ApiError), str(item)
    found: dict[str, Any] = json.loads(item["metadata"]["annotations"][key("resolved")])
    return found


def warnings_of(plane: ControlPlane, manifest: str) -> str:
    """What kubectl says on standard error while it creates something, as a dry run."""
    run = subprocess.run(
        [tool("kubectl"), "--kubeconfig", plane.kubeconfig, "create", "--dry-run=server", "-f", "-"],
        input=manifest, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stderr


def url_of(plane: ControlPlane) -> str:
    """Where the webhook configurations point."""
    path = "jsonpath={.webhooks[0].clientConfig.url}"
    return plane.kubectl("get", "mutatingwebhookconfiguration", CONFIGURATION, "-o", path).removesuffix(MUTATE_PATH)


@contextmanager
def without_webhook(plane: ControlPlane) -> Iterator[None]:
    """The API server does not ask the webhook for the length of the block."""
    url = url_of(plane)
    remove_configurations(plane)
    try:
        yield
    finally:
        point_at(plane, url)


def get(plane: ControlPlane, kind: str, name: str, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
    return found
