"""What only a server writes into an object's metadata: unknown in a run without one, and not missing.

The state that `monitor.py` gives back can't hold it: pulumi takes a mapping with an unknown value as unknown altogether
inside an `apply`, so names would be lost too. Loaded by path from `record.py`.
"""

from __future__ import annotations

from typing import Any

import pulumi

_FIELDS = frozenset(
    ("uid", "generation", "resource_version", "resourceVersion", "creation_timestamp", "creationTimestamp", "self_link",
     "selfLink")
)  # fmt: skip


def make_unknown() -> None:
    """From now on, `metadata["uid"]` and `metadata.uid` of an Output without it are unknown."""
    output: Any = pulumi.Output
    item, attribute = output.__getitem__, output.__getattr__

    def get_item(self: Any, key: Any) -> Any:
        if key not in _FIELDS:
            return item(self, key)
        return self.apply(lambda held: pulumi.UNKNOWN if _lacks(held, key) else held[key], True)

    def get_attribute(self: Any, name: str) -> Any:
        if name not in _FIELDS:
            return attribute(self, name)
        return self.apply(lambda held: pulumi.UNKNOWN if _lacks(held, name) else getattr(held, name), True)

    output.__getitem__, output.__getattr__ = get_item, get_attribute


def _lacks(held: Any, field: str) -> bool:
    """Whether it is metadata without the field, or is unknown itself."""
    return isinstance(held, pulumi.output.Unknown) or (isinstance(held, dict) and held.get(field) is None)
