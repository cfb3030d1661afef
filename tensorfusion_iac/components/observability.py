"""`Observability`: Grafana dashboards and alert rules beside the platform, as objects of the cluster (Part 6).

Dashboards are ConfigMaps with the label that Grafana's sidecar looks for; alerts are a PrometheusRule, or a ConfigMap with the
same rules for a Prometheus that no operator runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

import pulumi
import pulumi_kubernetes as k8s
import yaml

from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components import alerts
from tensorfusion_iac.components.component import Checks, Component
from tensorfusion_iac.components.dashboards import DASHBOARDS
from tensorfusion_iac.components.grafana import Dashboard
from tensorfusion_iac.components.inputs import is_deferred
from tensorfusion_iac.components.platform.foundation import LABELS

DASHBOARD_LABEL = "grafana_dashboard"
RULES_FILE = "tensor-fusion.rules.yaml"
_RULES = ("configmap", "prometheus-operator", "none")


class ObservabilityArguments(TypedDict, total=False):
    """Arguments of Observability. `rules`: the form of the alerts; `labels` go on every object, for what selects them."""

    namespace: pulumi.Input[str]
    rules: Literal["configmap", "prometheus-operator", "none"]
    labels: Mapping[str, pulumi.Input[str]]
    annotations: Mapping[str, pulumi.Input[str]]


class Observability(Component):
    """The dashboards and alerts. `dashboards`: the names of the ConfigMaps; `rules`: that of the rules' object, if any."""

    dashboards: list[str]
    rules: str | None

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[ObservabilityArguments]
    ) -> None:
        checks = Checks(arguments, ObservabilityArguments.__annotations__, {})
        checks.text("namespace")
        checks.mapping("labels", "annotations")
        given = checks.arguments
        form = given.get("rules", "configmap")
        if form not in _RULES:
            accepted = "one of " + ", ".join(_RULES)
            checks.problems.append(Problem("rules", quote(form), accepted))
        super().__init__(resource_name, given, opts)
        self.dashboards, self.rules = [], None
        if checks.problems:
            self._refuse(checks.problems)
            return
        self._given = given
        for dashboard in DASHBOARDS:
            self._declare_dashboard(dashboard)
        if form != "none":
            self._declare_rules(resource_name, form)
        self.register_outputs({"dashboards": self.dashboards, "rules": self.rules})

    def _declare_dashboard(self, dashboard: Dashboard) -> None:
        data = {f"{dashboard.uid}.json": json.dumps(dashboard.as_json(), indent=1)}
        self._config_map(dashboard.uid, data, {DASHBOARD_LABEL: "1"})
        self.dashboards.append(dashboard.uid)

    def _declare_rules(self, name: str, form: str) -> None:
        self.rules = f"{name}-alerts"
        if form == "configmap":
            text = yaml.safe_dump({"groups": alerts.rule_groups()}, sort_keys=False, width=120)
            self._config_map(self.rules, {RULES_FILE: text}, {})
            return
        made = alerts.prometheus_rule(self.rules, "", {})
        k8s.apiextensions.CustomResource(
            self.rules, api_version=made["apiVersion"], kind=made["kind"], spec=made["spec"],
            metadata=self._metadata(self.rules, {}), opts=pulumi.ResourceOptions(parent=self),
        )  # fmt: skip

    def _config_map(self, name: str, data: Mapping[str, str], labels: Mapping[str, str]) -> None:
        k8s.core.v1.ConfigMap(
            name, metadata=self._metadata(name, labels), data=data,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )  # fmt: skip

    def _metadata(self, name: str, labels: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {
            "name": name,
            "namespace": self._given.get("namespace", SYSTEM_NAMESPACE),
            "labels": _both(self._given.get("labels"), {**LABELS, **labels}),
        }
        annotations = self._given.get("annotations")
        return metadata if annotations is None else {**metadata, "annotations": annotations}


def _both(theirs: Any, ours: Mapping[str, str]) -> Any:
    """Their labels and ours, which hold."""
    if theirs is None:
        return ours
    if is_deferred(theirs):
        return pulumi.Output.from_input(theirs).apply(lambda known: {**(known or {}), **ours})
    return {**theirs, **ours}
