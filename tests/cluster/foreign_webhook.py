"""A mutating webhook of somebody else, that puts a sidecar into labelled pods after ours has seen them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from running_plane import ControlPlane
from running_webhook import apply

from tensorfusion_iac.admission.authority import new_authority, new_serving
from tensorfusion_iac.admission.certificates import load_pair

NAME = "zz-sidecars"  # by name, so after ours
LABEL = "sidecar.example.com/inject"
SIDECAR = {"name": "proxy", "image": "proxy:1", "env": [{"name": "MODE", "value": "mesh"}]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [item["name"] for item in review["request"]["object"]["spec"]["containers"]]
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if SIDECAR["name"] not in names:
            patch = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing is said on standard error."""


@contextmanager
def sidecars(plane: ControlPlane) -> Iterator[None]:
    """Pods with LABEL get the sidecar, for the length of the block."""
    now = datetime.now(UTC)
    authority = new_authority(now, timedelta(days=1))
    pair = new_serving(authority, ["127.0.0.1"], now, timedelta(days=1))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(context, pair.certificate, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    apply(
        plane,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [
                {
                    "name": "sidecars.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "objectSelector": {"matchLabels": {LABEL: "true"}},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{server.server_port}/",
                        "caBundle": base64.b64encode(authority.certificate.encode()).decode(),
                    },
                }
            ],
        },
    )
    try:
        yield
    finally:
        plane.kubectl("delete", "mutatingwebhookconfiguration", NAME)
        server.shutdown()
        server.server_close()
        thread.join(10)
