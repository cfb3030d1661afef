"""What a user of `tensorfusion local` did not expect, as one message that says what to do."""

from __future__ import annotations


class LocalError(Exception):
    """The control plane cannot be brought up, asked or taken down. `str()` is the whole message for the user."""


class WishError(LocalError):
    """What the user asked for contradicts itself or names something unknown; nothing was started or changed."""
