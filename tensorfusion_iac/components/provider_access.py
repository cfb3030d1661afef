"""Reading the cluster that a component's children go to, with the access that their provider has.

What a program is told beside the provider's own errors is read with it: why pods are missing, and whose an object is.
"""

from __future__ import annotations

import json
import os
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import pulumi

from tensorfusion_iac.kube.credentials import Credentials, from_kubeconfig
from tensorfusion_iac.kube.errors import CredentialsError

UNREADABLE = (CredentialsError, OSError, ValueError, KeyError, ImportError)
"""What says that a cluster cannot be read; the provider then has the only word."""

_TIMEOUT_S = 10.0


async def credentials_of(component: pulumi.Resource, type_token: str) -> Credentials:
    """The access of the provider that a child of this type uses: its own kubeconfig, the stack's configuration, else kubectl's.

    Raises one of `UNREADABLE`, as `get_json` does.
    """
    provider = component.get_provider(type_token)
    given = {name: await _known(vars(provider).get(name)) if provider is not None else None for name in ("kubeconfig", "context")}
    config = pulumi.Config("kubernetes")
    kubeconfig = given["kubeconfig"] or config.get("kubeconfig") or _default_kubeconfig()
    context = given["context"] or config.get("context")
    if "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{"):
        return await from_kubeconfig(_path(kubeconfig), context)
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
        file.write(kubeconfig)
        file.flush()
        return await from_kubeconfig(Path(file.name), context)


def get_json(credentials: Credentials, path: str) -> Any:
    """What the API server answers to a GET."""
    bearer = credentials.bearer()
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    request = urllib.request.Request(credentials.server + path, headers=headers)  # noqa: S310 - http(s), checked when read
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=credentials.tls) as answer:  # noqa: S310
        return json.load(answer)


async def _known(value: Any) -> Any:
    return await value.future() if isinstance(value, pulumi.Output) else value


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _default_kubeconfig() -> str:
    paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return paths[0] if paths else "~/.kube/config"
