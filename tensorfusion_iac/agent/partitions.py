"""Hardware partitions follow `GPU.spec.partitions`: what the scheduler wants is made, what it no longer wants is removed.

An instance that something runs in is never touched: its removal is refused by the driver and tried again. Placements are the
scheduler's; here nothing is chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.agent.driver import Driver, DriverError, Instance

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A placement that the scheduler wants, and for which pod."""

    template: str
    start: int
    size: int
    pod_uid: str | None = None


@dataclass(frozen=True, slots=True)
class Partitioned:
    """What is there after `follow`, and what went wrong, as one line ("" if nothing did)."""

    instances: tuple[tuple[Instance, str | None], ...] = ()
    message: str = ""


def wanted_of(gpu: Mapping[str, Any] | None) -> tuple[Wanted, ...]:
    """The placements in a GPU object's spec."""
    rows = ((gpu or {}).get("spec") or {}).get("partitions") or ()
    return tuple(Wanted(row["template"], row["start"], row["size"], row.get("podUID")) for row in rows)


def follow(driver: Driver, card: str, wanted: Sequence[Wanted]) -> Partitioned:
    """Make the card's instances the wanted ones, as far as it can be done now."""
    try:
        present = {(each.template, each.start): each for each in driver.instances(card)}
    except DriverError as error:
        return Partitioned(message=f"partitions cannot be read: {error}")
    named = {(each.template, each.start): each for each in wanted}
    faults: list[str] = []
    for place in present.keys() - named.keys():
        try:
            driver.destroy_instance(card, present[place])
            del present[place]
        except DriverError as error:
            faults.append(f"{place[0]} at {place[1]} is not removed: {error}")
    for place in sorted(named.keys() - present.keys(), key=lambda each: (-named[each].size, each)):
        try:
            present[place] = driver.create_instance(card, place[0], place[1], named[place].size)
        except DriverError as error:
            faults.append(f"{place[0]} at {place[1]} is not made: {error}")
    rows = sorted(present.items(), key=lambda item: item[1].start)
    instances = tuple((each, named[place].pod_uid if place in named else None) for place, each in rows)
    return Partitioned(instances, "; ".join(faults))
