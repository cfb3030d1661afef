"""The amounts that a worker asks for, from several sources: compute and memory, request and limit (SPEC §3).

Compute is one field per side, in TFLOPS or percent: an annotated percentage replaces a profile's TFLOPS. Then a missing
request is the limit, a missing memory limit is the memory request, and a missing compute limit is the whole card.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorfusion_iac.api.context import UNJUDGED
from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.merge import Merge
from tensorfusion_iac.api.problem import literal
from tensorfusion_iac.api.quantity import MIN_BARE_VRAM_BYTES
from tensorfusion_iac.api.worker import Compute, Source, Unit


class Asked(NamedTuple):
    """Amounts per GPU. `vram_*` in bytes. None: not bounded (limit), or not asked for (request)."""

    compute_request: Compute | None = None
    compute_limit: Compute | None = None
    vram_request: int | None = None
    vram_limit: int | None = None
    dedicated: bool = False

    @property
    def nothing(self) -> bool:
        """Whether neither compute nor memory is asked for; a compute request of 0 asks for nothing."""
        return self.vram_request is None and (self.compute_request is None or self.compute_request.value == 0)


_Given = tuple[str, Any]
"""An amount, behind the annotation that means it."""

_COMPUTE = (("tflops-request", "compute-percent-request"), ("tflops-limit", "compute-percent-limit"))
_VRAM = (("vram-request",), ("vram-limit",))
_REQUEST_OF = {limit: request for kind in (_COMPUTE, _VRAM) for request, limit in zip(*kind, strict=True)}
_UNIT_OF = {key: unit for keys in _COMPUTE for key, unit in zip(keys, (Unit.TFLOPS, Unit.PERCENT), strict=True)}


def ask(merge: Merge, isolation: Isolation, template: str | None) -> Asked:
    """The amounts by precedence; notes what contradicts itself, and a pod that asks for nothing and may not."""
    if _takes_whole_cards(merge):
        return Asked(dedicated=True)
    compute_request, compute_limit = _pair(merge, *_COMPUTE)
    vram_request, vram_limit = _pair(merge, *_VRAM)
    if vram_limit is None and vram_request is not None:  # memory cannot be taken back
        vram_limit = vram_request
        merge.sources["vram-limit"] = Source.DERIVED
    asked = Asked(_compute(compute_request), _compute(compute_limit), _bytes(vram_request), _bytes(vram_limit))
    excused = isolation is Isolation.SHARED or (isolation is Isolation.PARTITIONED and template is not None)
    if asked.nothing and not excused:
        message = "{found}: give {vram-request}, {tflops-request} or {compute-percent-request}"
        needs = (*AMOUNTS, "isolation", "partition-template")
        merge.refuse("vram-request", "nothing asked for", "an amount of memory or compute", message, *needs)
    if asked.vram_request is not None and asked.vram_request < MIN_BARE_VRAM_BYTES:
        found = f"{asked.vram_request} byte{'s' if asked.vram_request > 1 else ''}"
        merge.warn("vram-request", found, "1Mi", "{found} is less than {accepted}", "vram-limit")
    if isolation is Isolation.HARD and asked.compute_limit is None:
        _warn_of_no_bound(merge)
    return asked


def _warn_of_no_bound(merge: Merge) -> None:
    """Hard isolation keeps others safe from a pod only by its limits. What a quota could give is said, not waited for."""
    if any(merge.may_change(key) for key in _COMPUTE[1]):
        return
    unless = ", unless a quota of the namespace gives a limit" if merge.quota is UNJUDGED else ""
    message = f"{{found}} without a compute limit bounds no compute{unless}; give {{compute-percent-limit}} or {{tflops-limit}}"
    merge.warn("isolation", Isolation.HARD.value, "a compute limit", message)


def _takes_whole_cards(merge: Merge) -> bool:
    """Dedicated cards replace the amounts of lower sources. Amounts annotated by the pod replace a profile's `dedicatedGPU`."""
    if not merge.pick("dedicated-gpu", False):
        return False
    amounts = [f"{{{key}}}" for key in AMOUNTS if key in merge.annotated]
    if merge.sources["dedicated-gpu"] is Source.PROFILE and amounts:
        message = f"{{found}} is not used, since the pod gives {', '.join(amounts)}: it asks for a part of a card"
        merge.warn("dedicated-gpu", "true", "a whole card or an amount", message)
        del merge.sources["dedicated-gpu"]
        return False
    if merge.pick("gpu-model") is None:
        merge.refuse("dedicated-gpu", "true", "gpu-model", "{found} needs {gpu-model}: which cards to take", "gpu-model")
    return True


def _pair(merge: Merge, request_keys: tuple[str, ...], limit_keys: tuple[str, ...]) -> tuple[_Given | None, _Given | None]:
    """Request and limit of compute or memory; a missing request is the limit."""
    request, limit = merge.pick_first(request_keys), merge.pick_first(limit_keys)
    if request is None and limit is not None:
        request = (_REQUEST_OF[limit[0]], limit[1])
        merge.sources[request[0]] = Source.DERIVED
    elif request is not None and limit is not None:
        _judge_limit(merge, request, limit)
    return request, limit


def _judge_limit(merge: Merge, request: _Given, limit: _Given) -> None:
    """A limit below its request. In two units, that is judged per card; of annotations and profiles, it has been said."""
    key, wanted = request
    limit_key, most = limit
    if key != _REQUEST_OF[limit_key] or most >= wanted:
        return
    request_from, limit_from = merge.sources[key], merge.sources[limit_key]
    if request_from is limit_from and request_from is not Source.QUOTA:
        return
    show = BY_KEY[key].write
    asked_at = f"{{{key}}}" if request_from is Source.ANNOTATION else literal(merge.where(key))
    message = f"{{found}} is below {asked_at} {show(wanted)}; give {{{limit_key}}} {{accepted}}"
    merge.refuse(limit_key, show(most), f"of at least {show(wanted)}", message, key)


def _compute(given: _Given | None) -> Compute | None:
    return None if given is None else Compute(_UNIT_OF[given[0]], given[1])


def _bytes(given: _Given | None) -> int | None:
    return None if given is None else given[1]
