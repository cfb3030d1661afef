"""What this node can enforce on each card, and how devices reach its containers (SPEC §6, ARCHITECTURE step 5).

Found out once at the start, from the driver, the cgroups and the container toolkit's configuration; published in `GPU` and
`GPUNode`, where the scheduler reads it: `hard` where nothing delivers it is refused there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.agent.cgroups import Cgroups, Version
from tensorfusion_iac.agent.driver import Card, Driver

TOOLKIT_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
DEVICE_PLUGIN_RESOURCE = "nvidia.com/gpu"
_ENV_KEY = "accept-nvidia-visible-devices-envvar-when-unprivileged"


@dataclass(frozen=True, slots=True)
class CardCapabilities:
    """How limits are held on one card: as `GPU.status.capabilities` has it."""

    driver_version: str
    vram_limit: str
    compute_limit: str
    mps: bool
    mig: bool

    def as_status(self) -> dict[str, Any]:
        """The object in the status."""
        return {
            "driverVersion": self.driver_version, "vramLimit": self.vram_limit, "computeLimit": self.compute_limit,
            "mps": self.mps, "mig": self.mig,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Injection:
    """How devices reach containers: the tier, and what to do where there is none ("" if there is one)."""

    tier: str
    advice: str = ""


def card_capabilities(driver: Driver, card: Card, cgroups: Cgroups, *, has_mps: bool) -> CardCapabilities:
    """What can be enforced on a card."""
    by_driver = cgroups.unified is not None and not card.partitioned and driver.can_limit_memory(card.uuid)
    freezer = bool(cgroups.hierarchies)
    return CardCapabilities(
        driver.version, "driver" if by_driver else "watch", "freezer" if freezer else "none", has_mps, card.can_partition
    )


def describe_cgroups(cgroups: Cgroups) -> str:
    """The layout, for people: `v2`, `v1`, `hybrid` or `none`."""
    versions = {hierarchy.version for hierarchy in cgroups.hierarchies}
    if cgroups.pure:
        return "v2"
    return "hybrid" if len(versions) == 2 else "v1" if Version.V1 in versions else "hybrid" if versions else "none"


def injection(toolkit_config: str | None, node: Mapping[str, Any] | None) -> Injection:
    """The injection tier, from the toolkit's configuration (None: there is no such file) and the Node object."""
    if plugin_cards(node) > 0:
        return Injection(
            "none", f"NVIDIA's device plugin gives these cards away ({DEVICE_PLUGIN_RESOURCE}): exclude the node from it"
        )
    if toolkit_config is None:
        return Injection("none", f"{TOOLKIT_CONFIG} is missing: install the NVIDIA Container Toolkit")
    try:
        config = tomllib.loads(toolkit_config)
    except tomllib.TOMLDecodeError as error:
        return Injection("none", f"{TOOLKIT_CONFIG} cannot be read: {error}")
    runtime = config.get("nvidia-container-runtime") or {}
    if config.get(_ENV_KEY, True) is not True:
        return Injection("none", f"{TOOLKIT_CONFIG}: {_ENV_KEY} is false: set it to true")
    if runtime.get("mode", "auto") == "cdi":
        return Injection("none", f"{TOOLKIT_CONFIG}: mode is cdi, which takes no device from the environment: set it to auto")
    return Injection("env")


def plugin_cards(node: Mapping[str, Any] | None) -> int:
    """How many cards NVIDIA's device plugin offers on a node."""
    allocatable = ((node or {}).get("status") or {}).get("allocatable") or {}
    text = str(allocatable.get(DEVICE_PLUGIN_RESOURCE, "0"))
    return int(text) if text.isdigit() else 0


def read_toolkit_config(path: Path = TOOLKIT_CONFIG) -> str | None:
    """The toolkit's configuration, None where there is none."""
    try:
        return path.read_text()
    except OSError:
        return None
