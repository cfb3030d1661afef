"""What a plain `pulumi` needs to work against the embedded control plane: programs, plugins, state, and the environment.

All of it lies in the control plane's folder, so that the user's own Pulumi set-up is neither needed nor touched.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.toolchain import install_provider, link
from tensorfusion_iac.local.toolchain.recipe import load

PASSPHRASE = "tensorfusion-local"  # noqa: S105 - protects nothing: the state is beside it, and holds no secret of the user's
STACK = "dev"
TOOLS = ("pulumi", "pulumi-resource-kubernetes", "kubectl")
"""What `prepare` lays out."""


def environment(layout: Layout, path: str) -> dict[str, str]:
    """The variables that point pulumi and kubectl here; `path` is the PATH to extend."""
    return {
        "PATH": os.pathsep.join([str(bin_dir(layout)), path]),
        "KUBECONFIG": str(layout.kubeconfig),
        "KUBECACHEDIR": str(layout.own / "kubectl"),  # discovery is cached by address, which another control plane may reuse
        "PULUMI_HOME": str(layout.root / "pulumi"),
        "PULUMI_BACKEND_URL": f"file://{_state(layout)}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "GRPC_VERBOSITY": "ERROR",  # else gRPC says in a preview that a connection, long done with, was closed
    }


def exports(variables: Mapping[str, str]) -> str:
    """The variables as lines for a shell's `eval`."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


def bin_dir(layout: Layout) -> Path:
    """The folder of programs that goes on PATH."""
    return layout.root / "bin"


def prepare(layout: Layout, tools: Mapping[str, Path]) -> None:
    """Fill the folder of programs and install the provider. Idempotent. Raises ToolError."""
    own = {name: Path(sys.prefix) / "bin" / name for name in ("tensorfusion", "kubectl-tensorfusion")}
    programs = {"pulumi": tools["pulumi"], "kubectl": tools["kubectl"]} | {
        name: path for name, path in own.items() if path.is_file()
    }
    link(bin_dir(layout), programs)
    provider = "pulumi-resource-kubernetes"
    version = load().named(provider).version
    install_provider(tools["pulumi"], tools[provider], version, layout.root / "pulumi")
    _state(layout).mkdir(exist_ok=True)


def _state(layout: Layout) -> Path:
    """Pulumi's state: it describes this cluster, so it goes with the cluster's data."""
    return layout.own / "pulumi-state"
