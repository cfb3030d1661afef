"""How much of a small cluster could be filled at best, whatever the order: an exact solver for bench/scheduling.py (P5).

Branch and bound over pods (largest first) and cards; states that were seen with as much value are not followed again. Pods
are (compute, memory) in whole percent of a card, cards are all alike, and a pod's value is its fullness. Where the search
takes too long, an upper bound takes the optimum's place, which counts against us.
"""

from __future__ import annotations

from collections.abc import Sequence

Size = tuple[int, int]
CARD: Size = (100, 100)
MOST_STEPS = 20_000


class _TooLongError(Exception):
    """The search was given up."""


def value(size: Size) -> int:
    """What a placed pod counts: fullness of a card, in thousandths (0.7 memory, 0.3 compute)."""
    return 3 * size[0] + 7 * size[1]


def optimum(pods: Sequence[Size], cards: int) -> int:
    """The highest value of any set of the pods that fits on the cards together."""
    ordered = sorted(pods, key=value, reverse=True)
    rest = [0] * (len(ordered) + 1)
    for at in range(len(ordered) - 1, -1, -1):
        rest[at] = rest[at + 1] + value(ordered[at])
    best = steps = 0
    seen: dict[tuple[int, tuple[Size, ...]], int] = {}

    def room(free: tuple[Size, ...]) -> int:
        return sum(3 * compute + 7 * memory for compute, memory in free)

    def follow(at: int, free: tuple[Size, ...], placed: int) -> None:
        nonlocal best, steps
        best, steps = max(best, placed), steps + 1
        if steps > MOST_STEPS:
            raise _TooLongError
        if at == len(ordered) or placed + min(rest[at], room(free)) <= best:
            return
        state = at, free
        if seen.get(state, -1) >= placed:
            return
        seen[state] = placed
        compute, memory = ordered[at]
        tried: set[Size] = set()
        for index, (free_compute, free_memory) in enumerate(free):
            if free_compute >= compute and free_memory >= memory and free[index] not in tried:
                tried.add(free[index])
                left = [*free]
                left[index] = free_compute - compute, free_memory - memory
                follow(at + 1, tuple(sorted(left)), placed + value(ordered[at]))
        follow(at + 1, free, placed)

    try:
        follow(0, (CARD,) * cards, 0)
    except _TooLongError:
        return min(rest[0], room((CARD,) * cards))
    return best
