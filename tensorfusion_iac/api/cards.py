"""Which kind of card, how it is kept apart, and how many: vendor, model, isolation, MIG profile, count (SPEC §2, §6, §7).

What no catalogued card can give is warned of and not refused: a cluster may have cards that the catalogue does not know.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import NamedTuple

from tensorfusion_iac.api.annotations import template_needs_partitions, too_few_indices
from tensorfusion_iac.api.asked import Asked
from tensorfusion_iac.api.catalogue import GpuModel, catalogue, did_you_mean, find, mig_template
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.merge import Merge
from tensorfusion_iac.api.problem import quote
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.values import MAX_GPUS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Source, Unit


class Card(NamedTuple):
    """The kind of card that a worker asks for; `known` are the catalogue's models of that name."""

    vendor: Vendor
    model: str | None
    isolation: Isolation
    template: str | None
    known: tuple[GpuModel, ...]


def choose_card(merge: Merge) -> Card:
    """Vendor, model, isolation and MIG profile, by precedence."""
    isolation: Isolation = merge.pick("isolation", Isolation.SOFT)
    vendor: Vendor = merge.pick("vendor", Vendor.NVIDIA)
    model: str | None = merge.pick("gpu-model")
    card = Card(vendor, model, isolation, _template(merge, isolation), () if model is None else find(model))
    if model is not None:
        _warn_of_model(merge, card, model)
    return card


def choose_count(merge: Merge, injected: tuple[str, ...]) -> tuple[int, tuple[int, ...] | None]:
    """How many GPUs each worker has, and which device indices it may have (None: any)."""
    indices: tuple[int, ...] | None = merge.pick("gpu-indices")
    count, source = _count(merge, indices, injected)
    merge.sources["gpu-count"] = source
    split_says = source is Source.DERIVED and "container-gpu-count" in merge.annotated
    if indices is not None and len(indices) < count and not _of_one_source(merge, source, split_says):
        problem = too_few_indices(len(indices), count)
        needs = () if split_says else ("gpu-count", "container-gpu-count")
        merge.refuse(problem.field, problem.found, problem.accepted, problem.message, *needs)
    return count, indices


def warn_of_size(merge: Merge, card: Card, asked: Asked) -> None:
    """Warn of an amount that no card of the model, or where none is named no card of the vendor, is large enough for."""
    largest = _largest_of(card.vendor) if card.model is None else _largest(card.known)
    if largest is None:
        return
    which, unless = f"{card.model}, which", ""
    if card.model is None:
        which = f"{card.vendor.value} card of the catalogue, whose largest"
        unless = ", unless its pool is of another vendor" if merge.may_differ_by_pool("vendor") else ""
    message = f"{{found}} fits no {which} has {{accepted}}; the pod waits{unless}"
    most_vram, most_tflops = largest
    if asked.vram_request is not None and asked.vram_request > most_vram:
        found, most = format_bytes(asked.vram_request), format_bytes(most_vram)
        merge.warn("vram-request", found, most, message, *_rests_on(merge, "vram"))
    compute = asked.compute_request
    if compute is not None and compute.unit is Unit.TFLOPS and compute.value > most_tflops:
        found, most = f"{format_decimal(compute.value)} TFLOPS", format_decimal(most_tflops)
        merge.warn("tflops-request", found, most, message, *_rests_on(merge, "tflops"))


def _largest(models: tuple[GpuModel, ...]) -> tuple[int, Decimal] | None:
    """The most memory, in bytes, and the most TFLOPS that one card has; None if there is no card."""
    if not models:
        return None
    return max(model.nominal_vram_bytes for model in models), max(model.fp16_tflops for model in models)


@cache
def _largest_of(vendor: Vendor) -> tuple[int, Decimal] | None:
    return _largest(tuple(model for model in catalogue() if model.vendor is vendor))


def _rests_on(merge: Merge, amount: str) -> tuple[str, ...]:
    """What the size of a request rests on beside itself: the model, and the limit where it is the request too."""
    derived = merge.sources[f"{amount}-request"] is Source.DERIVED
    return ("gpu-model", f"{amount}-limit") if derived else ("gpu-model",)


def _of_one_source(merge: Merge, count_from: Source, split_says: bool) -> bool:
    """Whether indices and count stand in one source, where they have been held against each other already."""
    return merge.sources["gpu-indices"] is (Source.ANNOTATION if split_says else count_from)


def _count(merge: Merge, indices: tuple[int, ...] | None, injected: tuple[str, ...]) -> tuple[int, Source]:
    split = merge.annotated.get("container-gpu-count")
    if split is not None and "gpu-count" not in merge.annotated:
        return sum(split.values()), Source.DERIVED
    count: int | None = merge.pick("gpu-count")
    if count is not None:
        return count, merge.sources["gpu-count"]
    if indices is not None:
        message = "{found}, and nothing says how many GPUs: one for each is taken; to choose among them, give {gpu-count}"
        found = f"{len(indices)} {'index' if len(indices) == 1 else 'indices'}"
        merge.warn("gpu-indices", found, "gpu-count", message, "gpu-count", "container-gpu-count")
        return len(indices), Source.DERIVED
    native = merge.pod.native_gpus(injected)
    if native > MAX_GPUS:
        message = "{found} asked for natively by the injected containers; give {accepted}"
        merge.refuse("gpu-count", f"{native} GPUs", f"at most {MAX_GPUS}", message, "container-gpu-count", "gpu-indices")
    return (native, Source.POD) if native else (1, Source.DEFAULT)


def _template(merge: Merge, isolation: Isolation) -> str | None:
    """The MIG profile. A profile's is passed over where the pod is not partitioned; an annotated one is then a problem."""
    template: str | None = merge.pick("partition-template")
    if template is None or isolation is Isolation.PARTITIONED:
        return template
    source, problem = merge.sources["partition-template"], template_needs_partitions(template, isolation)
    if source is Source.ANNOTATION and merge.sources["isolation"] is not Source.ANNOTATION:
        merge.refuse(problem.field, problem.found, problem.accepted, problem.message, "isolation")
    elif source is Source.PROFILE and merge.sources["isolation"] is not Source.PROFILE:
        message = f"{{found}} is not used: {{isolation}} is {isolation.value}, not partitioned"
        merge.warn(problem.field, problem.found, problem.accepted, message, "isolation")
    del merge.sources["partition-template"]
    return None


def _warn_of_model(merge: Merge, card: Card, model: str) -> None:
    if not card.known:
        hint = did_you_mean(model) or "`tensorfusion models` lists what is"
        message = "{found} is not in the catalogue; the pod waits until a node has it; {accepted}"
        merge.warn("gpu-model", quote(model), hint, message)
        return
    makers = [each.vendor for each in card.known]
    if card.vendor not in makers:
        named = ", ".join(sorted(set(makers)))
        message = f"{{found}} is made by {named}, and {{vendor}} is {card.vendor.value}; the pod waits; give {{accepted}}"
        merge.warn("gpu-model", quote(model), f"vendor {named}", message, "vendor")
    if card.isolation is Isolation.PARTITIONED:
        _warn_of_partition(merge, card)


def _warn_of_partition(merge: Merge, card: Card) -> None:
    if all(model.mig is None for model in card.known):
        message = f"no {card.model} can be {{found}}; the pod waits; give {{accepted}}"
        merge.warn("isolation", "partitioned", "another isolation or model", message, "gpu-model")
    elif card.template is not None and not any(mig_template(model, card.template) for model in card.known):
        message = f"no {card.model} has {{found}}; the pod waits; give {{accepted}}"
        merge.warn("partition-template", quote(card.template), "another profile or model", message, "gpu-model")
