"""CEL snippets that the rules of custom resources are made of: amounts that may be a number or text, and may be absent.

The API server calls a field of type int-or-string `dyn`, and compares quantities only after `quantity(...)`, which fails on
text that is none: so every snippet asks `isQuantity` first. What is no quantity is the amount's own fault, not the rule's.
"""

from __future__ import annotations

from collections.abc import Iterable


def given(path: str) -> str:
    """True if there is an amount at `path` (below `self`, such as `limits.vram`) and it is above 0; 0 means not given.

    Written with `has`: through an optional (`self.?limits`) the API server loses the text's length, and with it the cost.
    """
    parts = path.split(".")
    there = " && ".join(f"has(self.{'.'.join(parts[: depth + 1])})" for depth in range(len(parts)))
    text = f"string(self.{path})"
    return f"({there} && isQuantity({text}) && quantity({text}).isGreaterThan(quantity('0')))"


def any_given(paths: Iterable[str]) -> str:
    """True if one of the amounts is given."""
    return "(" + " || ".join(given(path) for path in paths) + ")"


def covers(limit: str, request: str) -> str:
    """True if the amount at `limit` is at least the one at `request`, or one of the two is not given."""
    compared = f"quantity(string(self.{limit})).compareTo(quantity(string(self.{request}))) >= 0"
    return f"!{given(limit)} || !{given(request)} || {compared}"
