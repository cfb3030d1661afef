"""Where everything of one embedded control plane lies on disk: one folder, `.local` by default, private to its user.

Other things may live in that folder too (`make demo` keeps Pulumi's state there), so what `down --purge` removes is
listed here by name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError

DEFAULT_ROOT = Path(".local")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one control plane. `root` is absolute: two spellings of a folder are the same control plane."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> Layout:
        """The layout below `root`, which need not exist."""
        return cls(root.expanduser().resolve())

    @property
    def kubeconfig(self) -> Path:
        """Administrator's access, for kubectl, Pulumi and the user."""
        return self.root / "kubeconfig"

    @property
    def logs(self) -> Path:
        """A log for each process."""
        return self.root / "logs"

    @property
    def own(self) -> Path:
        """Everything else; nobody but this package writes there."""
        return self.root / "control-plane"

    @property
    def settings(self) -> Path:
        """What is wanted: ports, simulated nodes, programs (`state.Settings`)."""
        return self.own / "settings.json"

    @property
    def runtime(self) -> Path:
        """What is so, by the supervisor: processes, restarts (`state.Runtime`)."""
        return self.own / "runtime.json"

    @property
    def command_lock(self) -> Path:
        """Held by `up` and `down`, so that two of them take turns."""
        return self.own / "command.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor for as long as it lives, however it ends."""
        return self.own / "supervisor.lock"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.own / "pki"

    @property
    def config(self) -> Path:
        """Generated configuration: the kubeconfigs of the components, the scheduler's and KWOK's configuration."""
        return self.own / "config"

    @property
    def etcd_data(self) -> Path:
        """The cluster's objects; kept by `down`."""
        return self.own / "etcd"

    @property
    def real_nodes(self) -> Path:
        """Of the real nodes: their images, and a folder for each."""
        return self.own / "nodes"

    def log(self, process: str) -> Path:
        """The log of one process."""
        return self.logs / f"{process}.log"

    def older_log(self, process: str) -> Path:
        """What was the log until it had grown too long."""
        return self.logs / f"{process}.log.1"

    def component_kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one component."""
        return self.config / f"{user}.kubeconfig"

    def prepare(self) -> None:
        """Create the folders, open to their owner only. LocalError where that is not permitted.

        A `root` that is there already keeps its mode, since it may be anybody's; what is secret is private by itself.
        """
        try:
            for folder in (self.root, self.logs, self.own, self.pki, self.config, self.etcd_data):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.own.chmod(0o700)
        except OSError as error:
            raise LocalError(
                f"cannot keep the control plane's files in {self.root}: {error.strerror}: {error.filename}; "
                "give a folder of your own with --dir"
            ) from None

    def purge(self, processes: Iterable[str]) -> None:
        """Remove what belongs to the control plane of these processes, and folders that are empty then."""
        for process in processes:
            self.log(process).unlink(missing_ok=True)
            self.older_log(process).unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        if self.own.is_dir():
            shutil.rmtree(self.own)
        for folder in (self.logs, self.root):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step, readable by its owner only: a reader never sees a half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_private_if_changed(path: Path, content: bytes) -> None:
    """As `write_private`, but leave a file alone that says the same already."""
    if not path.is_file() or path.read_bytes() != content:
        write_private(path, content)
