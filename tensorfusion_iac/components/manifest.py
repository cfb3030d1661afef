"""Existing YAML as arguments: one Kubernetes object from a file, from text or from a mapping (API.md, `from_manifest`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.shape import get_path, with_path

Manifest = str | Path | Mapping[str, Any]
"""A path, the text of a YAML document (more than one line), or the object as a mapping."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A manifest that can't be used: the argument `manifest` of a component, which refuses it with its other problems."""

    problems: tuple[Problem, ...]


class _Refused(Exception):  # noqa: N818 - the end of the reading, told as a value
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_manifest(manifest: Manifest, kind: str, api_version: str) -> dict[str, Any]:
    """The arguments `metadata` and `spec`; or the one argument `manifest`, an Unread, if it isn't one `kind`."""
    try:
        document = manifest if isinstance(manifest, Mapping) else _document(manifest)
    except _Refused as refused:
        return {"manifest": Unread((refused.problem,))}
    problems: list[Problem] = []
    for field, wanted in (("kind", kind), ("apiVersion", api_version)):
        if document.get(field) != wanted:
            problems.append(Problem(f"manifest {field}", quote(document.get(field)), wanted))
    problems += [
        Problem(f"manifest {field}", quote(document.get(field)), "an object")
        for field in ("metadata", "spec")
        if not isinstance(document.get(field), Mapping)
    ]
    if problems:
        return {"manifest": Unread(tuple(problems))}
    spec = dict(document["spec"])
    return {"metadata": dict(document["metadata"]), "spec": _without_job_controllers(spec) if kind == "Job" else spec}


_LABELS_OF_JOBS = {"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"}


def _without_job_controllers(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job's spec without the selector and labels that the server made for the one that was read."""
    path = ("template", "metadata", "labels")
    labels = get_path(spec, path)
    if spec.get("manualSelector") or not isinstance(labels, Mapping):
        return spec
    rest = {key: value for key, value in spec.items() if key != "selector"}
    return with_path(rest, path, {key: value for key, value in labels.items() if key not in _LABELS_OF_JOBS})


def _document(manifest: str | Path) -> Mapping[str, Any]:
    source, text = "the text", str(manifest)
    if isinstance(manifest, Path) or "\n" not in manifest:
        source = str(manifest)
        text = _text_of(Path(manifest))
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        message = "{found} is not YAML: " + " ".join(str(error).split()).replace("{", "(").replace("}", ")")
        raise _Refused(Problem("manifest", source, "YAML", message)) from None
    if len(documents) != 1:
        found = f"{source} holds {len(documents)} objects"
        accepted = "a file of one, or yaml.safe_load_all and each object by itself"
        raise _Refused(Problem("manifest", found, accepted, "{found}; give {accepted}"))
    if not isinstance(documents[0], Mapping):
        raise _Refused(Problem("manifest", quote(documents[0]), "a Kubernetes object"))
    return documents[0]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = "{found} can't be read: " + reason + "; give {accepted}"
        accepted = "the path of a file, from the folder that pulumi runs the program in"
        raise _Refused(Problem("manifest", quote(str(path)), accepted, message)) from None
