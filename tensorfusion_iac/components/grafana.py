"""Grafana's dashboards as values: panels that lay themselves out, variables that choose, and the JSON that Grafana loads. Pure.

Only what our dashboards use of its model is here (schemaVersion 39, Grafana 10 and later).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensorfusion_iac.api.metrics import Metric

SOURCE = {"type": "prometheus", "uid": "${source}"}
_COLUMNS = 24
Look = Literal["timeseries", "stat", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `legend` names its series by their labels, `{{pod}}`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `unit` is Grafana's name of it (`bytes`, `percent`, `s`, ...); `width` of 24 columns, `height` in rows."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    look: Look = "timeseries"
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the panels: the values of one label of one metric. `within` narrows it by other variables."""

    label: str
    metric: Metric
    within: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; `uid` stays the same over versions, so that links hold."""

    uid: str
    title: str
    variables: Sequence[Variable]
    panels: Sequence[Panel]

    def as_json(self) -> dict[str, Any]:
        """What Grafana's provisioning reads."""
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["tensor-fusion"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [_SOURCE_VARIABLE, *map(_variable, self.variables)]},
            "panels": list(_laid_out(self.panels)),
        }


_SOURCE_VARIABLE = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus", "current": {}}


def _variable(variable: Variable) -> dict[str, Any]:
    selector = f"{{{variable.within}}}" if variable.within else ""
    return {
        "name": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({variable.metric.name}{selector}, {variable.label})", "refId": variable.label},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _laid_out(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Panels from left to right; one that does not fit begins a new row below the highest of this one."""
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        yield _panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": panel.height})
        x, row_height = x + panel.width, max(row_height, panel.height)


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    instant = panel.look != "timeseries"
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend or "__auto"}
        | ({"instant": True, "range": False} if instant else {})
        | ({"format": "table"} if panel.look == "table" else {})
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "title": panel.title,
        "type": panel.look,
        "datasource": SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
        "targets": targets,
    }
