"""The webhook comes and goes and changes its certificates: what is not ours never notices (R2), and nothing is lost (R5)."""

from __future__ import annotations

import base64
import json
import signal
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from balancer import balanced
from running_plane import ControlPlane
from running_webhook import (
    Replica,
    account_kubeconfig,
    any_certificate,
    apply,
    pod,
    point_at,
    replica,
    resolved,
    tried,
    url_of,
)
from steady_load import under_load
from typer.testing import CliRunner
from waiting import eventually

from tensorfusion_iac.admission.authority import new_serving
from tensorfusion_iac.admission.certificates import REPORT_LABEL, hosts_of_service
from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET, Address, webhook_configurations
from tensorfusion_iac.admission.rotation import ROTATE_ANNOTATION, Keys, Lives, from_secret
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.api.names import AGENT_NAMESPACE, COMPONENT_LABEL, SYSTEM_NAMESPACE
from tensorfusion_iac.cli import app
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import DEPLOYMENTS

pytestmark = pytest.mark.cluster

SPACE = "lifecycle-tests"
AMOUNT = {"vram-request": "1Gi"}
CLOSED = "https://127.0.0.1:1"
RATE = 100
"""Requests in a second while certificates change (R5)."""


@pytest.fixture(scope="module")
def plane(admission: ControlPlane) -> Iterator[ControlPlane]:
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    yield admission
    admission.kubectl("delete", "namespace", SPACE, "--wait=false")


def ask(plane: ControlPlane, item: dict[str, Any]) -> dict[str, Any] | ApiError:
    return plane.ask(lambda client: tried(client, item))


@contextmanager
def webhook_down(plane: ControlPlane) -> Iterator[None]:
    """The configurations stand, and nobody answers."""
    url = url_of(plane)
    apply(plane, *webhook_configurations(Address(CLOSED)))
    try:
        yield
    finally:
        point_at(plane, url)


def test_when_the_webhook_is_down_only_enabled_pods_wait(plane: ControlPlane) -> None:
    plain = pod(AMOUNT, namespace=SPACE)
    plain["metadata"]["labels"] = {}
    system = [pod(AMOUNT, namespace=name) for name in ("kube-system", "kube-node-lease", AGENT_NAMESPACE)]
    template = {
        "metadata": {"labels": {ENABLED_LABEL: "true", "app": "a"}, "annotations": {key("vram-request"): "1Gi"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": SPACE}, "spec": spec}
    with webhook_down(plane):
        refused = eventually(
            lambda: isinstance(found := ask(plane, pod(AMOUNT, namespace=SPACE)), ApiError) and found, "the webhook is down"
        )
        assert "failed calling webhook" in refused.message
        for item in (plain, *system):
            begin = time.monotonic()
            assert not isinstance(ask(plane, item), ApiError)
            assert time.monotonic() - begin < 2.5, "it has waited for the webhook"
        plane.ask(lambda client: client.create(DEPLOYMENTS, deployment, SPACE, query={"dryRun": "All"}))
    assert resolved(ask(plane, pod(AMOUNT, namespace=SPACE)))


def test_an_enabled_pod_can_be_changed_and_deleted_while_the_webhook_is_down(plane: ControlPlane) -> None:
    apply(plane, pod(AMOUNT, name="kept", namespace=SPACE))
    with webhook_down(plane):
        plane.kubectl("label", "pod", "kept", "-n", SPACE, "a=b")
        plane.kubectl(
            "patch", "pod", "kept", "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}'
        )
        plane.kubectl("patch", "pod", "kept", "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        plane.kubectl("delete", "pod", "kept", "-n", SPACE, "--grace-period=0", "--force")


def keys_of(plane: ControlPlane) -> Keys:
    found = from_secret(json.loads(plane.kubectl("get", "secret", TLS_SECRET, "-n", SYSTEM_NAMESPACE, "-o", "json")))
    assert found is not None
    return found


def bundle_of(plane: ControlPlane) -> str:
    path = "jsonpath={.webhooks[0].clientConfig.caBundle}"
    return base64.b64decode(plane.kubectl("get", "mutatingwebhookconfiguration", CONFIGURATION, "-o", path)).decode()


@pytest.fixture(scope="module")
def two(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas behind a balancer. (The session's own one goes on, and takes part in the rotation.)"""
    before = url_of(plane)
    kubeconfig = account_kubeconfig(plane, tmp_path_factory.mktemp("lifecycle"), CONFIGURATION)
    with (
        replica(kubeconfig, "left", drain_s=5) as left,
        replica(kubeconfig, "right") as right,
        balanced((left.port, right.port)) as port,
    ):
        point_at(plane, f"https://127.0.0.1:{port}")
        yield left, right
        point_at(plane, before)


@pytest.mark.usefixtures("two")
def test_a_new_authority_loses_no_request(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    old = keys_of(plane)
    apply(plane, report_of_a_dead_replica())
    with under_load(plane, SPACE, RATE) as load:
        plane.kubectl("annotate", "secret", TLS_SECRET, "-n", SYSTEM_NAMESPACE, f"{ROTATE_ANNOTATION}=true", "--overwrite")
        eventually(lambda: keys_of(plane).following, "a new authority is published")
        time.sleep(3)
        assert keys_of(plane).authority == old.authority, "it is used before every API server can know of it"
        plane.kubectl("annotate", "secret", TLS_SECRET, "-n", SYSTEM_NAMESPACE, long_ago(), "--overwrite")
        eventually(lambda: keys_of(plane).authority != old.authority, "the new authority is in use", 60)
        eventually(lambda: bundle_of(plane) == keys_of(plane).bundle, "the configurations trust what they have to")
        time.sleep(2)
    new = keys_of(plane)
    assert new.former == old.authority.certificate
    assert old.authority.certificate in bundle_of(plane)
    with capsys.disabled():
        print(f"\nR5  authority changed under {load.rate:.0f} requests/s: {len(load.failures)} of {load.sent} lost")  # noqa: T201
    assert load.failures == []
    reports = plane.kubectl("get", "leases", "-n", SYSTEM_NAMESPACE, "-o", "name")
    assert "lease.coordination.k8s.io/tensor-fusion-webhook-left" in reports
    assert "dead" not in reports


def long_ago() -> str:
    """The annotation by which a new authority has been published for long enough."""
    published = datetime.now(UTC) - Lives().spread
    return f"tensor-fusion.ai/authority-published-at={published.isoformat()}"


def report_of_a_dead_replica() -> dict[str, Any]:
    """What one has left behind that could not say goodbye: it must not be waited for, nor kept for ever."""
    metadata = {"name": f"{CONFIGURATION}-dead", "namespace": SYSTEM_NAMESPACE, "labels": {COMPONENT_LABEL: REPORT_LABEL}}
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 40, "renewTime": "2024-01-01T00:00:00.000000Z"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def test_a_new_serving_certificate_loses_no_request(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    """As its end nears."""
    old = keys_of(plane)
    with under_load(plane, SPACE, RATE) as load:
        plane.kubectl("patch", "secret", TLS_SECRET, "-n", SYSTEM_NAMESPACE, "--type=merge", "-p", json.dumps(_near_its_end(old)))
        eventually(lambda: keys_of(plane).serving != old.serving, "a new certificate")
        renewed = keys_of(plane)
        for one in two:
            eventually(lambda port=one.port: served_at(port) == renewed.serving.certificate, "the new one is served")
        time.sleep(1)
    assert renewed.authority == old.authority
    assert load.failures == []


def served_at(port: int) -> str:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def _near_its_end(keys: Keys) -> dict[str, Any]:
    """A serving certificate of the same authority of whose life little is left."""
    hosts = hosts_of_service(CONFIGURATION, SYSTEM_NAMESPACE, ("127.0.0.1",))
    pair = new_serving(keys.authority, hosts, datetime.now(UTC) - timedelta(days=89), timedelta(days=90))
    texts = {"tls.crt": pair.certificate, "tls.key": pair.key}
    return {"data": {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}}


def test_ready_means_that_tls_is_served_and_the_caches_are_synced(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    context = ssl.create_default_context(cadata=keys_of(plane).bundle)
    for one in two:
        with urllib.request.urlopen(f"https://127.0.0.1:{one.port}/readyz", context=context, timeout=10) as answer:
            assert answer.status == 200


def test_the_first_time_that_it_says_ready_it_answers(plane: ControlPlane, tmp_path: Path) -> None:  # case 32
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = any_certificate()
    request = {"uid": "a", "operation": "CREATE", "namespace": SPACE, "object": pod(AMOUNT, namespace=SPACE),
               "kind": {"group": "", "version": "v1", "kind": "Pod"}}  # fmt: skip
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()

    def answered() -> dict[str, Any]:
        """What it says to a pod that comes at the moment of the first `ready`."""
        while True:
            try:
                urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=context, timeout=10).close()
            except OSError:  # not listening, or status 503
                time.sleep(0.01)
                continue
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/mutate-pods", body, context=context, timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)["response"]
                return found

    kubeconfig = account_kubeconfig(plane, tmp_path, CONFIGURATION)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(answered)
        with replica(kubeconfig, "early", port=port):
            found = first.result(timeout=30)
    assert found["allowed"]
    assert found["patchType"] == "JSONPatch"


def test_the_authority_is_put_back_when_somebody_removes_it(plane: ControlPlane) -> None:
    hook = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    plane.kubectl("patch", "mutatingwebhookconfiguration", CONFIGURATION, "--type=json", "-p", json.dumps(hook))
    eventually(lambda: bundle_of(plane) == keys_of(plane).bundle, "the bundle is back", 15)
    eventually(lambda: not isinstance(ask(plane, pod(AMOUNT, namespace=SPACE)), ApiError), "the webhook is asked again")


def test_without_a_certificate_it_makes_its_own_again(plane: ControlPlane) -> None:
    plane.kubectl("delete", "secret", TLS_SECRET, "-n", SYSTEM_NAMESPACE)
    eventually(
        lambda: not isinstance(found := ask(plane, pod(AMOUNT, namespace=SPACE)), ApiError) and found and keys_of(plane),
        "all is well again",
        60,
    )


def test_replicas_come_and_go_without_a_loss(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    """A replica that is told to stop answers until its Service has forgotten it."""
    left, _ = two
    for _ in range(10):
        assert not isinstance(ask(plane, pod(AMOUNT, namespace=SPACE)), ApiError)
    left.process.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping" in "".join(left.log), "it stops")
    for _ in range(10):  # it still serves for some seconds
        assert not isinstance(ask(plane, pod(AMOUNT, namespace=SPACE)), ApiError)
    assert left.process.wait(timeout=30) == 0


def test_explain_tells_that_a_rolling_update_is_refused(plane: ControlPlane) -> None:
    marks = {key("vram-request"): "1Gi"}
    template = {
        "metadata": {"labels": {ENABLED_LABEL: "true", "app": "rolls"}, "annotations": marks},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "rolls"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rolls", "namespace": SPACE}, "spec": spec}

    def explained() -> str:
        words = ["explain", "deployment/rolls", "-n", SPACE, "--kubeconfig", str(plane.kubeconfig)]
        return CliRunner().invoke(app, words).stdout

    apply(plane, deployment)
    eventually(lambda: f"{SPACE}/rolls-" in explained(), "the first revision has its pod")
    assert "refused" not in explained()
    marks[key("workload-profile")] = "no-such-profile"
    apply(plane, deployment)
    told = eventually(lambda: "refused:" in (said := explained()) and said, "the refusal is told")
    first, problem, old = told.splitlines()
    assert first.startswith(f"{SPACE}/rolls: refused: revision 2 (ReplicaSet rolls-")
    assert "has 0 of 1 pods: admission webhook" in first
    assert "no-such-profile" in problem
    assert old.startswith(f"{SPACE}/rolls-"), "the pod of the first revision is told too"
