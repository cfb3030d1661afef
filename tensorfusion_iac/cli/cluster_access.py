"""Access to a cluster for the commands that only look: a kubeconfig, or in a pod its service account."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, environment

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.errors import KubeError
    from tensorfusion_iac.kube.resource import Resource
    from tensorfusion_iac.operations.observed import Observed

T = TypeVar("T")
_DEFAULT = Path("~/.kube/config")
LOCAL_ENV = 'for the embedded control plane: eval "$(tensorfusion local env)"'
_IS_IT_UP = "is the control plane up? `tensorfusion local up` starts the embedded one"

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
        raise environment(f"there is no kubeconfig at {path}: give --kubeconfig (or KUBECONFIG); {LOCAL_ENV}")

    async def run() -> T:
        async with Client.in_cluster() if in_a_pod else await Client.from_kubeconfig(path, context) as client:
            return await use(client)

    try:
        return asyncio.run(run())
    except KubeError as error:
        raise no_answer(error) from None


def no_answer(error: KubeError) -> Failure:
    """Ends a command that had no use of the cluster; where nobody answered, with what is to be looked at."""
    from tensorfusion_iac.kube.errors import ApiUnreachable

    return environment(f"{error}; {_IS_IT_UP}" if isinstance(error, ApiUnreachable) else str(error))


async def observe_in(client: Client, namespace: str | None, resources: Iterable[Resource]) -> Observed:
    """Read these kinds. Raises Failure if there is no such namespace: empty tables would not tell a typing error."""
    from tensorfusion_iac.operations.observing import observe, there_is

    if namespace is not None and not await there_is(client, namespace):
        raise Failure(f"there is no namespace {namespace}", Exit.PROBLEMS)
    return await observe(client, resources)


def _default() -> Path:
    try:
        return _DEFAULT.expanduser()
    except RuntimeError:  # a user without a home, as in our image
        return _DEFAULT
