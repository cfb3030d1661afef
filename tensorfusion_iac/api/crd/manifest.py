"""A CustomResourceDefinition around each model's schema: names, columns, subresources (SPEC §4)."""

from __future__ import annotations

from typing import Any

import yaml

from tensorfusion_iac.api.crd.schema import structural
from tensorfusion_iac.api.names import GROUP, VERSION
from tensorfusion_iac.api.resources import KINDS, Column, Kind

CATEGORY = "tensorfusion"
"""`kubectl get tensorfusion` lists the objects of all our kinds."""

LABELS = {"app.kubernetes.io/name": "tensorfusion-iac", "app.kubernetes.io/part-of": "tensorfusion-iac"}
_WIDTH = 120  # columns of the YAML text


def crds() -> tuple[dict[str, Any], ...]:
    """The manifests of all our kinds, in the order of `KINDS`. New objects at every call: the caller may change them."""
    return tuple(_definition(model.KIND, structural(model)) for model in KINDS)


def crd_yaml() -> str:
    """The same as YAML documents, for `kubectl apply --server-side -f -`."""
    return yaml.dump_all(crds(), Dumper=_NoAliases, explicit_start=True, sort_keys=False, width=_WIDTH, allow_unicode=True)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _definition(kind: Kind, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": dict(LABELS)},
        "spec": {
            "group": GROUP,
            "scope": kind.scope,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "subresources": _subresources(kind),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    described = {"name": column.name, "type": column.kind, "jsonPath": column.json_path}
    return described | ({"priority": column.wide_only} if column.wide_only else {})


def _subresources(kind: Kind) -> dict[str, Any]:
    if kind.scale is None:
        return {"status": {}}
    spec, status, selector = kind.scale
    scale = {"specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector}
    return {"status": {}, "scale": scale}
