"""A kubeconfig with everything embedded, so that the file works wherever it is copied."""

from __future__ import annotations

import base64

import yaml

NAME = "tensorfusion-local"
"""The name of its cluster and its context."""


def render(server: str, user: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """The kubeconfig (YAML) of `user`, who has a client certificate. The three last arguments are PEM."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": _data(authority)}}],
        "users": [{"name": user, "user": {"client-certificate-data": _data(certificate), "client-key-data": _data(key)}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": user}}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
