"""When the webhook's certificates are renewed, as a state machine without I/O; the state is the Secret that all replicas read.

A new serving certificate under the same authority needs nothing else. A new authority is first published beside the old one;
only when everyone trusts both, and every replica has loaded them, does it sign the serving certificate; the old one is
trusted for a day more.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tensorfusion_iac.admission.authority import (
    Pair,
    belong_together,
    fingerprint,
    names_of,
    new_authority,
    new_serving,
    validity,
)

_PUBLISHED, _SWITCHED = "tensor-fusion.ai/authority-published-at", "tensor-fusion.ai/authority-switched-at"
ROTATE_ANNOTATION = "tensor-fusion.ai/rotate-authority"
"""Set on the Secret by hand to have a new authority made now."""


@dataclass(frozen=True, slots=True)
class Lives:
    """How long certificates are good for, and how long changes are given to arrive everywhere."""

    authority: timedelta = timedelta(days=5 * 365)
    serving: timedelta = timedelta(days=90)
    spread: timedelta = timedelta(seconds=30)
    """How long API servers may take to see a new bundle in a webhook configuration."""
    farewell: timedelta = timedelta(hours=24)
    """How long an old authority is trusted after the switch."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What the Secret holds. `published_at` is when `following` was added, `switched_at` when `former` was replaced."""

    authority: Pair
    serving: Pair
    following: Pair | None = None
    published_at: datetime | None = None
    former: str | None = None
    switched_at: datetime | None = None
    wanted: bool = False

    @property
    def bundle(self) -> str:
        """All authorities that are to be trusted now, in PEM: the caBundle."""
        parts = [self.authority.certificate, self.following.certificate if self.following else "", self.former or ""]
        return "".join(parts)

    @property
    def expires_at(self) -> datetime:
        """When the serving certificate ends."""
        return validity(self.serving.certificate)[1]

    @property
    def mark(self) -> str:
        """What a replica reports when it has loaded these keys."""
        return fingerprint(self.serving.certificate, self.bundle)


def advance(keys: Keys | None, hosts: Sequence[str], now: datetime, lives: Lives, *, trusted_everywhere: bool) -> Keys | None:
    """The next state, None if there is nothing to do.

    `trusted_everywhere`: the bundle is in every webhook configuration, and every live replica has loaded the keys.
    """
    if keys is None:
        authority = new_authority(now, lives.authority)
        return Keys(authority, new_serving(authority, hosts, now, lives.serving))
    arrived = keys.published_at is not None and now - keys.published_at >= lives.spread
    if keys.following is not None and arrived and trusted_everywhere:
        serving = new_serving(keys.following, hosts, now, lives.serving)
        return Keys(keys.following, serving, former=keys.authority.certificate, switched_at=now)
    if _wears_out(keys.serving.certificate, now, 3) or not set(hosts) <= names_of(keys.serving.certificate):
        return replace(keys, serving=new_serving(keys.authority, hosts, now, lives.serving))
    if keys.following is not None:
        return None
    if keys.wanted or _wears_out(keys.authority.certificate, now, 5):
        return replace(keys, following=new_authority(now, lives.authority), published_at=now, wanted=False)
    if keys.former is not None and (keys.switched_at is None or now - keys.switched_at >= lives.farewell):
        return replace(keys, former=None, switched_at=None)
    return None


def _wears_out(certificate: str, now: datetime, parts: int) -> bool:
    """Whether less than one of `parts` of a certificate's life is left."""
    begin, end = validity(certificate)
    return end - now < (end - begin) / parts


def to_secret(keys: Keys) -> dict[str, Any]:
    """Data and annotations of the Secret; members that are not there are null, so that a merge removes them."""
    following = keys.following
    texts = {
        "ca.crt": keys.authority.certificate, "ca.key": keys.authority.key,
        "tls.crt": keys.serving.certificate, "tls.key": keys.serving.key,
        "next-ca.crt": following.certificate if following else None, "next-ca.key": following.key if following else None,
        "former-ca.crt": keys.former,
    }  # fmt: skip
    data = {name: base64.b64encode(text.encode()).decode() if text else None for name, text in texts.items()}
    stamps = {_PUBLISHED: keys.published_at, _SWITCHED: keys.switched_at}
    annotations: dict[str, str | None] = {name: at.isoformat() if at else None for name, at in stamps.items()}
    annotations[ROTATE_ANNOTATION] = "true" if keys.wanted else None
    return {"metadata": {"annotations": annotations}, "data": data}


def from_secret(secret: Mapping[str, Any] | None) -> Keys | None:
    """The keys in the Secret; None if there is none, or what it holds cannot be used: then all is made anew."""
    data, annotations = _members(secret, "data"), _members(_members(secret, "metadata"), "annotations")
    try:
        texts = {name: base64.b64decode(value, validate=True).decode() for name, value in data.items()}
        stamps = {
            name: datetime.fromisoformat(annotations[name]) for name in (_PUBLISHED, _SWITCHED) if annotations.get(name)
        }  # fmt: skip
        keys = Keys(
            Pair(texts["ca.crt"], texts["ca.key"]),
            Pair(texts["tls.crt"], texts["tls.key"]),
            Pair(texts["next-ca.crt"], texts["next-ca.key"]) if "next-ca.crt" in texts else None,
            stamps.get(_PUBLISHED),
            texts.get("former-ca.crt"),
            stamps.get(_SWITCHED),
            annotations.get(ROTATE_ANNOTATION) == "true",
        )
        if not all(belong_together(pair) for pair in (keys.authority, keys.serving, keys.following) if pair):
            return None
    except (KeyError, ValueError, TypeError, binascii.Error):
        return None
    return keys


def _members(parent: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    found = parent.get(name) if parent else None
    return found if isinstance(found, Mapping) else {}
