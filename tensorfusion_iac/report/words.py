"""A change of a workload in words: "TFLOPS request 10 -> 40 per GPU, x 4 GPUs x 3 replicas" (API.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorfusion_iac.report.facets import AMOUNTS, facets, open_facets
from tensorfusion_iac.report.workloads import ALL, Asked, Workload

ARROW = "->"


def described(workload: Workload, otherwise: tuple[int, int]) -> tuple[str, ...]:
    """The change in words, one part each; nothing if nothing changes. `otherwise`: pods where no count is written."""
    before, after = workload.before, workload.after
    is_on = tuple(side is not None and side.enabled for side in (before, after))
    if before is None or not is_on[0]:
        return (f"{'new' if before is None else 'turned on'}: {', '.join(_whole(after, otherwise[1]))}", *_unknown(after))
    if after is None or not is_on[1]:
        kept = "stays in the cluster, no longer managed" if workload.change.retained else "deleted"
        return (f"{kept if after is None else 'turned off'}: {', '.join(_whole(before, otherwise[0]))}",)
    return tuple(_parts(before, after, otherwise))


def unknown_words(unknown: tuple[str, ...]) -> str:
    """What is not known, as a sentence."""
    return f"known only at deployment: {', '.join(unknown)}"


def _parts(before: Asked, after: Asked, otherwise: tuple[int, int]) -> Iterator[str]:
    counts = before.workers(otherwise[0]), after.workers(otherwise[1])
    others: list[str] = []
    if before.seen is not None and after.seen is not None:
        was, now = facets(before.seen), facets(after.seen)
        left_open = open_facets((*before.unknown, *after.unknown), now)
        changed = {name: (was[name], now[name]) for name in now if was[name] != now[name] and name not in left_open}
        if "whole cards" in changed:
            changed = {name: pair for name, pair in changed.items() if name not in AMOUNTS}
        amounts = [_changed(name, *changed[name]) for name in AMOUNTS if name in changed]
        scaled = counts[0] != counts[1] and not _count_unknown(before, after)
        if amounts or scaled or "GPUs" in changed:
            head = f"{', '.join(amounts)} per GPU, " if amounts else ""
            gpus = _counted(before.seen.gpu_count, after.seen.gpu_count, "GPU")
            replicas = "unknown replicas" if _count_unknown(before, after) else _counted(*counts, "replica")
            yield f"{head}x {gpus} x {replicas}" if amounts else _only_counts(changed, gpus, replicas, scaled)
        others = [f"{name} {ARROW.join((f'{pair[0]} ', f' {pair[1]}'))}" for name, pair in changed.items()
                  if name not in (*AMOUNTS, "GPUs", "enabled replicas")]  # fmt: skip
    elif before.seen is None and after.seen is not None:
        yield f"can be read now: {', '.join(_whole(after, otherwise[1]))}"
    yield from others
    yield from _images(before.template, after.template)
    if rest := _other_fields(before.template, after.template):
        yield f"{rest} other {'field' if rest == 1 else 'fields'} of the pod template"
    yield from _unknown(after)


def _unknown(asked: Asked | None) -> Iterator[str]:
    if asked is not None and asked.unknown:
        yield unknown_words(asked.unknown)


def _only_counts(changed: Mapping[str, Any], gpus: str, replicas: str, scaled: bool) -> str:
    parts = ([gpus + " per worker"] if "GPUs" in changed else []) + ([replicas] if scaled else [])
    return ", ".join(parts)


def _whole(asked: Asked | None, otherwise: int) -> Iterator[str]:
    """All that a side asks for."""
    if asked is None:
        return
    worker = asked.seen
    if worker is None:
        yield "refused" if asked.problems else "what it asks for cannot be told"
        return
    names = facets(worker)
    left_open = open_facets(asked.unknown, names)
    amounts = [
        f"{_titled(name, names[name])}" for name in ("compute request", "VRAM request")
        if name not in left_open and names[name] not in ("none", "the whole card")
    ]  # fmt: skip
    if worker.whole_card and "whole cards" not in left_open:
        amounts = ["whole cards"]
    gpus = "unknown GPUs" if "GPUs" in left_open else _plural(worker.gpu_count, "GPU")
    replicas = "unknown replicas" if _count_unknown(asked) else _plural(asked.workers(otherwise), "replica")
    yield f"{', '.join(amounts)} per GPU, x {gpus} x {replicas}" if amounts else f"{gpus} x {replicas}"
    for name, usual in (("pool", None), ("QoS", None), ("GPU model", "any"), ("isolation", "soft")):
        if name not in left_open and names[name] != usual:
            yield f"{name} {names[name]}"


def _count_unknown(*sides: Asked) -> bool:
    return any(name in ("replicas", "parallelism", ALL) for side in sides for name in side.unknown)


def _changed(name: str, was: str, now: str) -> str:
    """`TFLOPS request 10 -> 40` where both are in TFLOPS; else with their units."""
    if name.startswith("compute ") and was.endswith(" TFLOPS") and now.endswith(" TFLOPS"):
        side = name.removeprefix("compute ")
        return f"TFLOPS {side} {was.removesuffix(' TFLOPS')} {ARROW} {now.removesuffix(' TFLOPS')}"
    return f"{name} {was} {ARROW} {now}"


def _titled(name: str, text: str) -> str:
    if name.startswith("compute ") and text.endswith(" TFLOPS"):
        return f"TFLOPS {name.removeprefix('compute ')} {text.removesuffix(' TFLOPS')}"
    return f"{name} {text}"


def _counted(was: int, now: int, noun: str) -> str:
    return _plural(now, noun) if was == now else f"{was} {ARROW} {_plural(now, noun)}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _images(before: Any, after: Any) -> Iterator[str]:
    was, now = _by_container(before), _by_container(after)
    for name in now:
        if name in was and was[name] != now[name]:
            yield f"image of {name} {was[name]} {ARROW} {now[name]}"


def _by_container(template: Any) -> dict[str, str]:
    return {name: image for container in _containers(template) if isinstance(name := container.get("name"), str)
            and isinstance(image := container.get("image"), str)}  # fmt: skip


def _containers(template: Any) -> Iterator[Mapping[str, Any]]:
    spec = template.get("spec") if isinstance(template, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    yield from (one for one in (containers if isinstance(containers, list) else ()) if isinstance(one, Mapping))


def _other_fields(before: Any, after: Any) -> int:
    """Fields of the template that differ and have been said in no other words."""
    was, now = dict(_leaves(before)), dict(_leaves(after))
    return sum(1 for path in {*was, *now} if was.get(path) != now.get(path) and not _said(path))


def _said(path: tuple[str, ...]) -> bool:
    ours = path[:1] == ("metadata",) and path[-1].startswith("tensor-fusion.ai/")
    return ours or (path[:2] == ("spec", "containers") and path[-1] == "image")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            name = item.get("name") if isinstance(item, Mapping) else None
            yield from _leaves(item, (*path, str(name or at)))
    else:
        yield path, value
