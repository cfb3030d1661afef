"""Problems of a custom resource before it is sent: the API server's own verdict, on the part that is known (SPEC §4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tensorfusion_iac.api.check import Verdict, check_resource
from tensorfusion_iac.api.names import API_VERSION


def verdict_on(kind: str, spec: Mapping[str, Any], missing: Collection[tuple[str, ...]] = ()) -> Verdict:
    """Problems and warnings of the spec of an object of `kind`; `missing` are the paths in it that are known later."""
    raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "judged-apart"}, "spec": spec}
    return check_resource(raw, frozenset(".".join(("spec", *path)) for path in missing))
