"""A process of the control plane as a value: how it is run, when it is ready, and what has to be ready before it.

The supervisor runs a table of these and knows nothing else about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorfusion_iac.local.certs import Pair


@dataclass(frozen=True, slots=True)
class Probe:
    """A URL that answers 200 once the process does its work; for https, who vouches for it and who we are.

    `any_certificate`: its authority is only in the cluster. Nothing secret is asked, and on loopback.
    """

    url: str
    authority: Path | None = None
    identity: Pair | None = None
    any_certificate: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `env` adds to the supervisor's own small environment; `after` names processes of the same table.

    It is ended by SIGTERM, and by SIGKILL `grace_s` seconds later. `until` says what an idle one waits for: it cannot be ready
    before something is deployed, so nothing waits for it.
    """

    name: str
    argv: tuple[str, ...]
    readiness: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    grace_s: float = 10.0
    until: str = ""
