"""How each kind of workload is laid out: where its pod template is, how many pods run at once, what its arguments set.

The four components share one base; this is all in which they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of workload. Paths lie within its spec, in manifest form.

    `spec_fields` says which field each argument sets; `required` are arguments that must be given, with what is accepted.
    `selects` is true where the spec has a label selector, `autonamed` where an edit replaces the object, so that old and new
    have to stand beside each other; `waits` says whether `up` waits by default, `can_wait` whether it can at all.
    `restart_policy` is what the kind's pods need where Kubernetes' own default is not allowed.
    """

    kind: str
    api_version: str
    spec_args: type
    template: Path
    pods: Path
    spec_fields: Mapping[str, Path]
    required: Mapping[str, str]
    selects: bool = False
    autonamed: bool = False
    can_wait: bool = True
    waits: bool = True
    restart_policy: str | None = None

    @property
    def type_token(self) -> str:
        """Pulumi's type of the child."""
        return f"kubernetes:{self.api_version}:{self.kind}"


def get_path(tree: Any, path: Path) -> Any:
    """The value at a path of mappings, or None."""
    for part in path:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(part)
    return tree


def with_path(tree: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of the tree with `value` at the path."""
    head, *rest = path
    if not rest:
        return {**tree, head: value}
    below = tree.get(head)
    return {**tree, head: with_path(below if isinstance(below, Mapping) else {}, tuple(rest), value)}


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees of mappings as one; where both say something, `above` holds."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = laid_over(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
