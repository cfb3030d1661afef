"""Replicas of one template are decided once: a pod that differs in nothing that counts gets the decision of the one before.

What counts is the whole pod, its namespace and owner, and the state of the caches; what does not is the random name that the
API server gives to the volume of the service account's token. Only admissions are remembered, and none in which that name
plays a part.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import orjson

from tensorfusion_iac.admission.decision import AdmissionFacts, Decision

Key = tuple[int, str, str, str, bytes]

_TOKEN_VOLUME = re.compile(rb"kube-api-access-[a-z0-9]{5}\b")
_SAME = b"kube-api-access-"
_LARGEST_BYTES = 64 * 1024


class Memo:
    """The latest decisions, at most `size` of them."""

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._decisions: OrderedDict[Key, Decision] = OrderedDict()

    def key(self, pod: Any, facts: AdmissionFacts, version: int) -> Key | None:
        """What a decision about this pod depends on; None for a pod that is not worth it. `version` is that of the caches."""
        text = orjson.dumps(pod)
        if len(text) > _LARGEST_BYTES:
            return None
        owner = facts.owner
        owned = (owner.kind, owner.name) if owner is not None else ("", "")
        return (version, facts.namespace.name, *owned, _TOKEN_VOLUME.sub(_SAME, text))

    def get(self, key: Key | None) -> Decision | None:
        """The decision of an equal pod."""
        if key is None or (found := self._decisions.get(key)) is None:
            return None
        self._decisions.move_to_end(key)
        return found

    def put(self, key: Key | None, decision: Decision) -> None:
        """Remember a decision, unless it must not be used again: a refusal, one side of a grey release, or one in which the
        volume's name has got into the patch.
        """
        worker = decision.worker
        if key is None or worker is None or worker.enabled_replicas is not None or _SAME in decision.patch_json():
            return
        self._decisions[key] = decision
        if len(self._decisions) > self._size:
            self._decisions.popitem(last=False)
