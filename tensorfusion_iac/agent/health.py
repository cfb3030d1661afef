"""Whether a card is fit for work: a state machine over the driver's events and probes (ENFORCEMENT.md, rules).

Faults of an application do not count. What the driver itself says (recovery action, lost device) goes before any table; a
card comes back only after a reset was seen where one was needed, and after several clean probes. One card never speaks for
another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""A program's own faults (research/enforcement.md §6)."""
FATAL_XIDS = frozenset({48, 64, 74, 79, 95, 119, 120, 140, 143})
"""The card needs a reset, or the node a reboot."""
NOTED_XIDS = frozenset({63, 92})
"""Worth a message: a row remap is pending, many corrected errors."""

CLEAN_PROBES = 3
"""Clean probes, one after the other, after which a card is trusted again."""
FAILED_PROBES = 3
"""Failed probes, one after the other, after which a card is given up."""

RECOVERY_ACTIONS = (
    "", "a GPU reset", "a reboot of the node", "draining its peer-to-peer traffic", "draining and a reset",
    "a recovery of its IMEX domain", "a bus reset", "a reboot of the system",
)  # fmt: skip
"""What NVML_FI_DEV_GET_GPU_RECOVERY_ACTION asks for, by its value."""


class State(StrEnum):
    """As `GPU.status.health` has it; only a Healthy card takes new pods."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    UNHEALTHY = "Unhealthy"
    RECOVERING = "Recovering"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found when the card was asked. None where the driver does not know the question.

    `lost`: a call said that the device is lost or needs a reset. `error`: another failure, as text. `was_reset`: it answers
    again after the library was started anew. `slowed`: clocks are held down by heat or power.
    """

    lost: bool = False
    error: str = ""
    recovery_action: int | None = None
    remap_failed: bool = False
    remap_pending: bool = False
    ecc_uncorrected: int | None = None
    was_reset: bool = False
    slowed: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """The state of one card, why, and what the way back depends on."""

    state: State = State.HEALTHY
    message: str = ""
    needs_reset: bool = False
    clean_probes: int = 0
    failed_probes: int = 0
    ecc_uncorrected: int | None = None
    recovery_action: int = 0


def after_xid(health: Health, xid: int) -> Health:
    """The health after an XID event of the card."""
    if xid in APPLICATION_XIDS:
        return health
    if xid in NOTED_XIDS:
        return replace(health, message=health.message or f"XID {xid}")
    if xid in FATAL_XIDS:
        return _unhealthy(health, f"XID {xid}", needs_reset=True)
    if health.state in (State.UNHEALTHY, State.RECOVERING):
        return _unhealthy(health, f"XID {xid}", needs_reset=health.needs_reset)
    return replace(health, state=State.SUSPECT, message=f"XID {xid}", clean_probes=0)


def after_probe(health: Health, probe: Probe) -> Health:
    """The health after a probe."""
    ended_action = bool(health.recovery_action) and probe.recovery_action == 0
    if (probe.was_reset or ended_action) and not probe.lost:
        health = replace(health, needs_reset=False)
    known = replace(
        health,
        recovery_action=health.recovery_action if probe.recovery_action is None else probe.recovery_action,
        ecc_uncorrected=health.ecc_uncorrected if probe.ecc_uncorrected is None else probe.ecc_uncorrected,
    )
    fault = _fault(probe)
    if fault is not None:
        return replace(
            _unhealthy(known, fault, needs_reset=probe.lost or health.needs_reset), recovery_action=known.recovery_action
        )
    if probe.error:
        return _after_failure(known, probe.error)
    if _has_more_errors(health, probe):
        return _suspect(known, "uncorrected memory errors")
    return _after_clean(known, probe)


def _fault(probe: Probe) -> str | None:
    """What makes a card unhealthy at once."""
    if probe.lost:
        return "the device is lost"
    if probe.recovery_action:
        known = probe.recovery_action < len(RECOVERY_ACTIONS)
        return f"the driver asks for {RECOVERY_ACTIONS[probe.recovery_action] if known else probe.recovery_action}"
    if probe.remap_failed:
        return "a row remap failed"
    return None


def _after_failure(health: Health, error: str) -> Health:
    failed = health.failed_probes + 1
    if health.state is not State.HEALTHY and (failed >= FAILED_PROBES or health.state is not State.SUSPECT):
        return replace(_unhealthy(health, error, needs_reset=health.needs_reset), failed_probes=failed)
    return replace(_suspect(health, error), failed_probes=failed)


def _has_more_errors(health: Health, probe: Probe) -> bool:
    before, now = health.ecc_uncorrected, probe.ecc_uncorrected
    return before is not None and now is not None and now > before


def _after_clean(health: Health, probe: Probe) -> Health:
    note = "a row remap is pending: reset the card when it is idle" if probe.remap_pending else ""
    note = note or ("clocks are held down by heat or power" if probe.slowed else "")
    health = replace(health, failed_probes=0)
    if health.state is State.HEALTHY:
        return replace(health, message=note)
    if health.state is State.UNHEALTHY:
        if health.needs_reset:
            return health
        return replace(health, state=State.RECOVERING, clean_probes=1)
    clean = health.clean_probes + 1
    if clean < CLEAN_PROBES:
        return replace(health, clean_probes=clean)
    return replace(health, state=State.HEALTHY, message=note, clean_probes=0)


def _unhealthy(health: Health, message: str, *, needs_reset: bool) -> Health:
    return replace(health, state=State.UNHEALTHY, message=message, needs_reset=needs_reset, clean_probes=0)


def _suspect(health: Health, message: str) -> Health:
    if health.state in (State.UNHEALTHY, State.RECOVERING):
        return _unhealthy(health, message, needs_reset=health.needs_reset)
    return replace(health, state=State.SUSPECT, message=message, clean_probes=0)
