"""The dashboards ask for what exists, as Prometheus' own parser reads it, and are what Grafana loads."""

from __future__ import annotations

import json
import re

import pytest
from promql import ask

from tensorfusion_iac.api.metrics import METRICS
from tensorfusion_iac.components.dashboards import DASHBOARDS
from tensorfusion_iac.components.grafana import Dashboard, Panel, Query

LABELS = {name: set(metric.labels) | {"le"} for metric in METRICS for name in metric.series}
QUERIES = [
    pytest.param(dashboard, panel, query, id=f"{dashboard.uid}-{panel.title}-{number}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for number, query in enumerate(panel.queries)
]
each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)


def as_prometheus_gets_it(expr: str) -> str:
    return re.sub(r"\$(\w+)", ".*", expr.replace("$__rate_interval", "5m"))


@pytest.mark.parametrize(("dashboard", "panel", "query"), QUERIES)
def test_a_query_names_metrics_labels_and_variables_that_exist(dashboard: Dashboard, panel: Panel, query: Query) -> None:
    (answer,) = ask([(as_prometheus_gets_it(query.expr), 1)])
    assert not answer.error, query.expr
    assert answer.metrics
    every: set[str] = set()
    for name, labels in answer.metrics.items():
        assert set(labels) <= LABELS[name], query.expr
        every |= LABELS[name]
    assert set(answer.groups) <= every
    kept = set(answer.groups) or every
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= kept & every
    asked = set(re.findall(r"\$(\w+)", query.expr)) - {"__rate_interval"}
    assert asked <= {variable.label for variable in dashboard.variables}


@each_dashboard
def test_variables_choose_from_labels_of_their_metric(dashboard: Dashboard) -> None:
    earlier: set[str] = set()
    for variable in dashboard.variables:
        assert variable.label in variable.metric.labels
        assert set(re.findall(r"\$(\w+)", variable.within)) <= earlier
        earlier.add(variable.label)


@each_dashboard
def test_panels_do_not_overlap_and_fit_the_width(dashboard: Dashboard) -> None:
    made = dashboard.as_json()
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        taken |= cells
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])


@each_dashboard
def test_a_dashboard_fits_into_a_config_map(dashboard: Dashboard) -> None:
    text = json.dumps(dashboard.as_json(), indent=1)
    assert json.loads(text) == dashboard.as_json()
    assert len(text) < 256 * 1024


def test_every_metric_is_on_a_dashboard() -> None:
    expressions = " ".join(query.expr for dashboard in DASHBOARDS for panel in dashboard.panels for query in panel.queries)
    assert [metric.name for metric in METRICS if metric.name not in expressions] == []
