"""The page of custom resources: a table of fields for each kind, read from the CRDs themselves (SPEC §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.reference.markdown import code, table
from tensorfusion_iac.api.resources import KINDS, Kind
from tensorfusion_iac.api.resources.base import IGNORED_TEXT

Node = Mapping[str, Any]

_HEAD = ("Field", "Type", "Meaning", "Rule")
_INTRODUCTION = f"""\
# Custom resources

The kinds of `{API_VERSION}`. This page is written from the models in `tensorfusion_iac/api/resources`, as the
CustomResourceDefinitions are (`tensorfusion crds` prints them); do not edit it.

- Every field is optional unless it says required. 0 and empty text mean "not given", except in a quota's `total` and
  `single.max*`, where 0 means none.
- A quantity is a whole number or text such as `10`, `0.5`, `500m`, `4Gi`, `4G`: no sign, at most 32 characters.
- `[]` stands for each item of a list. `kubectl get tensorfusion -A` lists the objects of all kinds.
- The API server judges all that is said here but one thing: bounds of amounts, and rules between them, inside a list
  (`cronScalingRules[].desiredResources`), since Kubernetes 1.33, the oldest that we support, does not admit such rules.
  `tensorfusion validate`, the components and the webhook judge those too.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One field. `rules` are those of its own value, `across` those between the fields below it."""

    path: str
    type: str
    meaning: str
    rules: tuple[str, ...]
    across: tuple[str, ...]

    @property
    def ignored(self) -> bool:
        """Whether only the public operator reads it."""
        return self.meaning.endswith(IGNORED_TEXT)


def crds_page() -> str:
    """docs/reference/crds.md."""
    schemas = {
        definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for definition in crds()
    }
    return "\n".join((_INTRODUCTION, *(_section(model.KIND, schemas) for model in KINDS)))


def _section(kind: Kind, schemas: Mapping[str, Node]) -> str:
    schema = schemas[kind.kind]
    scope = "namespaced" if kind.scope == "Namespaced" else "cluster-wide"
    text = f"## {kind.kind}\n\n{kind.description} {scope.capitalize()}; short names {', '.join(map(code, kind.short_names))}.\n"
    if kind.scale:
        text += f"`kubectl scale` sets `{kind.scale[0][1:]}`.\n"
    same = next(name for name in schemas if _fields(schemas[name], "spec") == _fields(schema, "spec"))
    rows = list(_part("status", schema))
    if same != kind.kind:
        text += f"\nIts `spec` is that of [{same}](#{same.lower()}).\n"
    else:
        rows = [*_part("spec", schema), *rows]
    text += _tables(kind, [row for row in rows if not row.ignored])
    across = [(row.path, rule) for row in (_root(schema), *rows) for rule in row.across]
    if across:
        text += "\nRules between fields:\n\n" + "".join(f"- {code(path)}: {rule}\n" for path, rule in across)
    ignored = [code(row.path) for row in rows if row.ignored]
    if ignored:
        text += f"\nAccepted for manifests of the public operator and ignored: {', '.join(ignored)}.\n"
    return text


def _tables(kind: Kind, rows: list[Row]) -> str:
    text = ""
    for title, part in (("spec", "spec."), ("status, written by the system", "status.")):
        cells = [
            (code(row.path), row.type, row.meaning, "; ".join(row.rules) or "-") for row in rows if row.path.startswith(part)
        ]
        if cells:
            text += f"\n### {kind.kind}: {title}\n\n{table(_HEAD, cells)}"
    return text


def _fields(schema: Node, part: str) -> Node | None:
    found: Node | None = schema["properties"].get(part)
    return found.get("properties") if found else None


def _root(schema: Node) -> Row:
    return Row("metadata.name", "text", "", (), _messages(schema))


def _part(part: str, schema: Node) -> Iterator[Row]:
    if part in schema["properties"]:
        yield from _rows(part, schema["properties"][part], part in schema.get("required", ()))


def _rows(path: str, node: Node, required: bool) -> Iterator[Row]:
    messages = _messages(node)
    has_fields = "properties" in node
    meaning = node["description"] + (" Required." if required else "")
    row = Row(path, _type(node), meaning, () if has_fields else messages, messages if has_fields else ())
    yield row
    if row.ignored:
        return
    item = node.get("items")
    if isinstance(item, Mapping):
        path, node = f"{path}[]", item
        if _messages(item) and "properties" in item:
            yield Row(path, "object", item["description"], (), _messages(item))
    for name, field in node.get("properties", {}).items():
        yield from _rows(f"{path}.{name}", field, name in node.get("required", ()))


def _messages(node: Node) -> tuple[str, ...]:
    generic = "must be a Kubernetes quantity"
    said = (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
    return tuple(message for message in said if not message.startswith(generic))


def _type(node: Node) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in node:
        return "one of " + ", ".join(map(code, node["enum"]))
    kind = node.get("type")
    if kind == "integer":
        return f"integer{_range(node)}"
    if kind == "array":
        most = f", at most {node['maxItems']}" if "maxItems" in node else ""
        return f"list of {_type(node['items'])}{most}"
    if kind == "object":
        return "map of text" if "additionalProperties" in node else "object"
    return {"string": "text", "boolean": "`true`, `false`"}[str(kind)]


def _range(node: Node) -> str:
    if "minimum" in node and "maximum" in node:
        return f" {node['minimum']}..{node['maximum']}"
    return f" from {node['minimum']}" if "minimum" in node else ""
