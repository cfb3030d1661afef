"""Access to a cluster for the commands that only look: a kubeconfig, or in a pod its service account."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tensorfusion_iac.cli.exits import environment

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Client

T = TypeVar("T")
_DEFAULT = Path("~/.kube/config")

Kubeconfig = Annotated[
    Path | None,
    typer.Option(envvar="KUBECONFIG", help="Access to the cluster; default: ~/.kube/config, or the pod's account."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; default: its current one.")]


def ask(kubeconfig: Path | None, context: str | None, use: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with a client. Raises Failure, with the reason, where the cluster cannot be reached."""
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.errors import KubeError

    path = kubeconfig or _default()
    in_a_pod = kubeconfig is None and not path.is_file() and "KUBERNETES_SERVICE_HOST" in os.environ
    if not in_a_pod and not path.is_file():
        raise environment(f"there is no kubeconfig at {path}: give --kubeconfig (or KUBECONFIG)")

    async def run() -> T:
        async with Client.in_cluster() if in_a_pod else await Client.from_kubeconfig(path, context) as client:
            return await use(client)

    try:
        return asyncio.run(run())
    except KubeError as error:
        raise environment(str(error)) from None


def _default() -> Path:
    try:
        return _DEFAULT.expanduser()
    except RuntimeError:  # a user without a home, as in our image
        return _DEFAULT
