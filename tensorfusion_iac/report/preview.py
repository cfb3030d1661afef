"""What `pulumi preview --json` says, read for the report: the Kubernetes objects of each step, before and after.

The form is Pulumi's `PreviewDigest`. A value that only the deployment will know stands there as a fixed text, and a secret as
`[secret]`: both are kept apart from values here, so that nothing is ever concluded from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.problem import LISTED_ELSEWHERE

Path = tuple[str | int, ...]
Raw = Mapping[str, Any]

_UNKNOWN = frozenset(
    (
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # of a text; the others of a bool, a number, a list, an asset, an archive, a map
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
        "[secret]",
    )
)
"""Pulumi's placeholders (sdk/go/common/resource/plugin/rpc.go), and what its preview writes for a secret."""
_MOST_ERRORS = 20


class PreviewError(ValueError):
    """The text is no preview; the message says what it seems to be and what is wanted."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A Kubernetes object as a program gives it. `raw` lacks what is not known; `unknown` says where that would stand."""

    raw: Raw
    unknown: tuple[Path, ...]

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.raw.get("kind") or "")

    @property
    def group(self) -> str:
        """Its API group; empty for the core group."""
        return str(self.raw.get("apiVersion") or "").rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name; empty if it is not known."""
        return self._metadata("name")

    @property
    def namespace(self) -> str:
        """Its namespace; empty if it has none."""
        return self._metadata("namespace")

    def _metadata(self, field: str) -> str:
        metadata = self.raw.get("metadata")
        value = metadata.get(field) if isinstance(metadata, Mapping) else None
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one object: absent before, after, or neither. `resource` is its name in the program.

    `replaced`: it is made anew; `deletes_first`: the old one goes before the new one comes. `retained`: it leaves the stack
    and stays in the cluster. `is_patch`: the stack owns some fields of the object, not the object.
    """

    resource: str
    before: Manifest | None
    after: Manifest | None
    replaced: bool = False
    deletes_first: bool = False
    retained: bool = False
    is_patch: bool = False

    @property
    def manifest(self) -> Manifest:
        """The object after, or before if it goes."""
        found = self.after or self.before
        if found is None:
            raise ValueError(f"{self.resource}: a change of nothing")
        return found


@dataclass(frozen=True, slots=True)
class Preview:
    """One preview. `unseen`: resources that stay as they are and that it does not show. `errors`: why it is not whole."""

    project: str
    stack: str
    changes: tuple[Change, ...]
    errors: tuple[str, ...] = ()
    unseen: int = 0


def read_preview(text: str) -> Preview:
    """Read the output of `pulumi preview --json`. Raises PreviewError."""
    digest = _digest(text)
    steps = [step for step in digest.get("steps") or () if isinstance(step, Mapping) and isinstance(step.get("urn"), str)]
    errors = list(_errors(digest))
    if digest.get("maybeCorrupt"):
        errors.append("Pulumi says that this preview may be wrong (maybeCorrupt)")
    project, stack = _names(steps)
    by_urn: dict[str, list[Raw]] = {}
    for step in steps:
        by_urn.setdefault(step["urn"], []).append(step)
    changes = [change for urn, of_urn in by_urn.items() if (change := _change(urn, of_urn)) is not None]
    summary = digest.get("changeSummary")
    same = summary.get("same", 0) if isinstance(summary, Mapping) else 0
    shown = sum(1 for step in steps if step.get("op") == "same")
    return Preview(project, stack, tuple(changes), tuple(errors), max(0, same - shown) if isinstance(same, int) else 0)


def without_unknown(value: Any, path: Path = ()) -> tuple[Any, list[Path]]:
    """The value with every unknown member left out, and the paths of those; an unknown item of a list becomes None."""
    if isinstance(value, str) and value in _UNKNOWN:
        return None, [path]
    if isinstance(value, Mapping):
        known: dict[str, Any] = {}
        paths: list[Path] = []
        for key, item in value.items():
            left, of_item = without_unknown(item, (*path, key))
            paths += of_item
            if of_item != [(*path, key)]:
                known[key] = left
        return known, paths
    if isinstance(value, list):
        items = [without_unknown(item, (*path, at)) for at, item in enumerate(value)]
        return [left for left, _ in items], [found for _, of_item in items for found in of_item]
    return value, []


def _digest(text: str) -> Raw:
    if not text.strip():
        raise PreviewError("there is nothing to read; the output of `pulumi preview --json` is wanted")
    try:
        digest = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{") and '"sequence"' in text[:2000]:
            message = "this is a stream of events; run `pulumi preview --json` without PULUMI_ENABLE_STREAMING_JSON_PREVIEW"
            raise PreviewError(message) from None
        raise PreviewError(f"this is not the output of `pulumi preview --json`: {error}") from None
    if not isinstance(digest, dict) or not ({"steps", "diagnostics", "changeSummary"} & set(digest)):
        raise PreviewError("this JSON is not a preview: it has none of steps, diagnostics, changeSummary")
    if not isinstance(digest.get("steps") or [], list):
        raise PreviewError("this JSON is not a preview: steps is not a list")
    return digest


def _errors(digest: Raw) -> Iterator[str]:
    messages: dict[str, str] = {}
    listed = digest.get("diagnostics")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, Mapping) and item.get("severity") == "error":
            message = str(item.get("message") or "").strip().removeprefix("error: ")
            messages.setdefault(message, _resource(str(item.get("urn") or "")))
    whole = [
        message
        for message in messages
        if not message.endswith(LISTED_ELSEWHERE) and not any(message in other and message != other for other in messages)
    ]
    for message in whole[:_MOST_ERRORS]:  # what is said once for the resource and again for the program is said once
        name = messages[message]
        yield f"{name}: {message}" if name else message


def _resource(urn: str) -> str:
    """Kind and name of what an error is about: `AnnotatedDeployment "chat"`; empty for the program as a whole."""
    *_, kind, name = ["", "", *urn.split("::")]
    kind = kind.rpartition("$")[2].rpartition(":")[2]
    return f'{kind} "{name}"' if name and kind != "Stack" else ""


def _names(steps: list[Raw]) -> tuple[str, str]:
    """The project and the stack, from any URN: `urn:pulumi:STACK::PROJECT::TYPE::NAME`."""
    parts = str(steps[0]["urn"]).split("::") if steps else []
    return (parts[1], parts[0].removeprefix("urn:pulumi:")) if len(parts) >= 4 else ("", "")


def _change(urn: str, steps: list[Raw]) -> Change | None:
    """The change of one Kubernetes object, from its one step, or the three of a replacement."""
    if not urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2].startswith("kubernetes:"):
        return None
    ops = [str(step.get("op")) for step in steps]
    if all(op in ("read", "discard", "read-discard", "read-replacement") for op in ops):
        return None
    before = next((found for step in steps if (found := _manifest(step.get("oldState")))), None)
    after = next((found for step in steps if (found := _manifest(step.get("newState")))), None)
    if "delete" in ops and "create" not in ops:
        after = None
    if before is None and after is None:
        return None
    replaced = any("replace" in op for op in ops)
    old: Raw = next((step["oldState"] for step in steps if isinstance(step.get("oldState"), Mapping)), {})
    return Change(
        urn.rpartition("::")[2],
        before,
        after,
        replaced=replaced,
        deletes_first=replaced and _first(ops, "delete-replaced") < _first(ops, "create-replacement"),
        retained=after is None and old.get("retainOnDelete") is True,
        is_patch=urn.rpartition("::")[0].endswith("Patch"),
    )


def _first(ops: list[str], op: str) -> int:
    return ops.index(op) if op in ops else len(ops)


def _manifest(state: object) -> Manifest | None:
    inputs = state.get("inputs") if isinstance(state, Mapping) else None
    if not isinstance(inputs, Mapping) or not isinstance(inputs.get("kind"), str):
        return None
    raw, unknown = without_unknown(inputs)
    return Manifest(raw, tuple(unknown))
