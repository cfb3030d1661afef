"""Memory of a program that keeps large caches and answers requests: what the garbage collector has to look at."""

from __future__ import annotations

import gc

_OBJECTS_BEFORE_GC = 20_000


def settle_memory() -> None:
    """Keep the garbage collector from walking the caches for every few requests, whose own memory has no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_GC)
