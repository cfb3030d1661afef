"""What the API server refuses in the metadata of an object that is to be created: names, labels, annotations, unknown members.

Kubernetes' own rules, judged without it; a CRD has no say in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from tensorfusion_iac.api.plain import Json, below
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.values import parse_name

_KNOWN = (
    "name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "generation",
    "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip
_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def metadata_problems(metadata: Json) -> Iterator[Problem]:
    """All problems of `metadata` (plain JSON; None if there is none), with their paths."""
    if not isinstance(metadata, (dict, type(None))):
        yield Problem("metadata", quote(metadata), "an object")
        return
    given = metadata or {}
    for key in given:
        if key not in _KNOWN:
            yield unknown_field("metadata", key, _KNOWN)
    for key in ("name", "generateName", "namespace"):
        if key in given and not isinstance(given[key], str):
            yield Problem(f"metadata.{key}", quote(given[key]), "text", "{found} is not {accepted}; put it in quotes")
    yield from _names(given)
    for key in ("labels", "annotations"):
        yield from _map_problems(key, given.get(key, {}))


def unknown_field(path: str, key: str, known: tuple[str, ...]) -> Problem:
    """A member that the object does not have, with the nearest one that it has."""
    close = get_close_matches(key, known, n=1, cutoff=0.6) or [name for name in known if name.lower() == key.lower()]
    accepted = f"did you mean {close[0]}?" if close else "known are " + ", ".join(known)
    return Problem(below(path, key), "unknown field", accepted, "{found}; {accepted}")


def _names(given: Mapping[str, Json]) -> Iterator[Problem]:
    name, prefix, namespace = given.get("name"), given.get("generateName"), given.get("namespace")
    if not name and not prefix:
        yield Problem("metadata.name", "missing", "a name", "is {found}; give {accepted}")
    elif isinstance(name, str) and name:
        try:
            parse_name(name)
        except Fault as fault:
            yield fault.at("metadata.name")
    elif isinstance(prefix, str) and prefix:
        try:
            parse_name(prefix[:240] + "x")  # the server appends five letters or digits
        except Fault:
            yield Problem("metadata.generateName", quote(prefix), "the beginning of an object name")
    if isinstance(namespace, str) and namespace and _LABEL.fullmatch(namespace) is None:
        yield Problem("metadata.namespace", quote(namespace), "a namespace (lower-case letters, digits and -, at most 63)")


def _map_problems(member: str, pairs: Json) -> Iterator[Problem]:
    path = f"metadata.{member}"
    if not isinstance(pairs, dict):
        yield Problem(path, quote(pairs), "an object of texts")
        return
    for key, value in pairs.items():
        if not _is_qualified(key):
            yield Problem(path, quote(key), "a key such as app or example.com/app", "{found} is not {accepted}")
        if not isinstance(value, str):
            yield Problem(below(path, key), quote(value), "text, in quotes", "{found} is not {accepted}")
        elif member == "labels" and value and _PART.fullmatch(value) is None:
            accepted = "a label value (letters, digits, -, _ and ., at most 63)"
            yield Problem(below(path, key), quote(value), accepted)


def _is_qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash:
        try:
            parse_name(prefix)
        except Fault:
            return False
    return _PART.fullmatch(name) is not None
