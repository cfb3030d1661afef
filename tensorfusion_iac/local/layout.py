"""Where everything of one embedded control plane lies on disk: one folder, `.local` by default, private to its user.

Other things may live in that folder too (`make demo` keeps Pulumi's state there), so what `down --purge` removes is
listed here by name.
"""

from __future__ import annotations

import os
import shutil
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
    def settings(self) -> Path:
        """What is wanted: ports, simulated nodes, programs (`state.Settings`)."""
        return self.root / "settings.json"

    @property
    def runtime(self) -> Path:
        """What is so, by the supervisor: processes, restarts (`state.Runtime`)."""
        return self.root / "runtime.json"

    @property
    def command_lock(self) -> Path:
        """Held by `up` and `down`, so that two of them take turns."""
        return self.root / "command.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor for as long as it lives, however it ends."""
        return self.root / "supervisor.lock"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def config(self) -> Path:
        """Generated configuration: the kubeconfigs of the components, the scheduler's and KWOK's configuration."""
        return self.root / "config"

    @property
    def etcd_data(self) -> Path:
        """The cluster's objects; kept by `down`."""
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        """A log for each process."""
        return self.root / "logs"

    def log(self, process: str) -> Path:
        """The log of one process."""
        return self.logs / f"{process}.log"

    def component_kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one component."""
        return self.config / f"{user}.kubeconfig"

    def prepare(self) -> None:
        """Create the folders, open to their owner only. LocalError where that is not permitted."""
        try:
            for folder in (self.root, self.pki, self.config, self.etcd_data, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)
        except OSError as error:
            raise LocalError(
                f"cannot keep the control plane's files in {self.root}: {error.strerror}: {error.filename}; "
                "give a folder of your own with --dir"
            ) from None

    def purge(self) -> None:
        """Remove everything that belongs to the control plane, and the folder itself if nothing else is in it."""
        owned = (
            self.kubeconfig, self.settings, self.runtime, self.supervisor_lock, self.command_lock,
            self.pki, self.config, self.etcd_data, self.logs,
        )  # fmt: skip
        for path in owned:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()


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
