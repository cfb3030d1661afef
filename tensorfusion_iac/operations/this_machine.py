"""What the agent would find out on this machine, without a cluster: its cards, driver, cgroups and container toolkit."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from tensorfusion_iac._version import __version__
from tensorfusion_iac.agent.capabilities import (
    TOOLKIT_CONFIG,
    CardCapabilities,
    Injection,
    card_capabilities,
    describe_cgroups,
    injection,
    read_toolkit_config,
)
from tensorfusion_iac.agent.cgroups import MOUNT, Cgroups
from tensorfusion_iac.agent.driver import Card, Driver, DriverError
from tensorfusion_iac.agent.mps import Mps
from tensorfusion_iac.api.names import MPS_DIRECTORY
from tensorfusion_iac.operations.finding import Finding
from tensorfusion_iac.operations.nodes import NodeReport


def report(
    driver: Driver, mount: Path = MOUNT, toolkit_config: Path = TOOLKIT_CONFIG, mps: Path = Path(MPS_DIRECTORY)
) -> tuple[list[NodeReport], list[Finding]]:
    """This machine as a row, and what is wrong with it."""
    cgroups, name = Cgroups(mount), platform.node()
    cards, has_mps = tuple(driver.cards()), Mps(driver, mps).available
    found = [card_capabilities(driver, card, cgroups, has_mps=has_mps) for card in cards]
    tier, layout = injection(read_toolkit_config(toolkit_config), None), describe_cgroups(cgroups)
    row = NodeReport(
        name, "-", __version__, None, tier.tier, layout, len(cards), driver.version,
        _all(one.vram_limit for one in found), _all(one.compute_limit for one in found),
        _all("yes" if one.mps else "no" for one in found), _all("yes" if one.mig else "no" for one in found), "-",
    )  # fmt: skip
    return [row], [*_wrong(driver, cards, found, tier, layout)]


def _all(texts: Iterator[str]) -> str:
    return ", ".join(sorted(set(texts))) or "-"


def _wrong(
    driver: Driver, cards: tuple[Card, ...], found: list[CardCapabilities], tier: Injection, layout: str
) -> Iterator[Finding]:
    here = f"node {platform.node()}"
    if not cards:
        yield Finding(here, "the driver reports no card", "see nvidia-smi and the kernel's log")
    if tier.tier == "none":
        yield Finding(here, "devices cannot reach containers here: it would take no pods", tier.advice)
    if any(one.compute_limit == "none" for one in found):
        yield Finding(here, f"no compute limit can be held (cgroups: {layout})", "run as root, on a kernel with the freezer")
    for card in cards:
        try:
            lost = driver.probe(card.uuid).lost
        except DriverError as error:
            yield Finding(f"GPU {card.uuid}", str(error), "see the kernel's log")
            continue
        if lost:
            yield Finding(f"GPU {card.uuid}", "the driver has lost it", "reset the card, or restart the machine")
