"""`Observability` under Pulumi's mocks: which objects it declares, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from mocked import Ran, Run

import tensorfusion_iac as tfi
from tensorfusion_iac.components.alerts import ALERTS


def _declare(**arguments: Any) -> Any:
    return lambda: tfi.Observability("observability", **arguments) and None


def config_maps(ran: Ran) -> dict[str, dict[str, Any]]:
    return {item.inputs["metadata"]["name"]: item.inputs for item in ran.registered if item.type.endswith(":ConfigMap")}


def test_dashboards_are_config_maps_that_grafana_finds(run: Run) -> None:
    ran = run(_declare())
    assert ran.error is None
    found = {name: made for name, made in config_maps(ran).items() if made["metadata"]["labels"].get("grafana_dashboard") == "1"}
    assert set(found) == {f"tensor-fusion-{which}" for which in ("pools", "gpus", "workloads", "scheduler")}
    for name, made in found.items():
        assert made["metadata"]["namespace"] == "tensor-fusion-system"
        assert json.loads(made["data"][f"{name}.json"])["uid"] == name


def test_without_an_operator_the_alerts_are_a_file(run: Run) -> None:
    made = config_maps(run(_declare()))["observability-alerts"]
    (group,) = yaml.safe_load(made["data"]["tensor-fusion.rules.yaml"])["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    assert "grafana_dashboard" not in made["metadata"]["labels"]


def test_an_operator_gets_a_rule_with_the_labels_that_it_looks_for(run: Run) -> None:
    ran = run(_declare(rules="prometheus-operator", namespace="monitoring", labels={"release": "stack"}))
    made = ran.one(":PrometheusRule")
    assert made["metadata"]["name"] == "observability-alerts"
    assert (made["metadata"]["namespace"], made["metadata"]["labels"]["release"]) == ("monitoring", "stack")
    assert "observability-alerts" not in config_maps(ran)


def test_alerts_can_be_left_out(run: Run) -> None:
    assert len(config_maps(run(_declare(rules="none")))) == 4


def test_labels_and_annotations_are_on_every_object(run: Run) -> None:
    ran = run(_declare(labels={"team": "ml"}, annotations={"grafana_folder": "GPU"}))
    for made in config_maps(ran).values():
        assert made["metadata"]["labels"]["team"] == "ml"
        assert made["metadata"]["annotations"] == {"grafana_folder": "GPU"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"rules": "operator"}, 'rules: "operator" is not one of configmap, prometheus-operator, none'),
        ({"namespace": ""}, 'namespace: "" is not text'),
        ({"labels": "a=b"}, 'labels: "a=b" is not a mapping'),
        ({"rule": "none"}, "rule"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, arguments: dict[str, Any], line: str) -> None:
    ran = run(_declare(**arguments))
    assert isinstance(ran.error, tfi.SpecError)
    assert line in ran.refusal
    assert not config_maps(ran)
