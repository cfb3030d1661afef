"""The arguments of `ControlPlane`: what they are, and what is wrong with them (Part 6; API.md). Every problem at once.

The result is `platform.Settings`, from which the manifests are made; nothing is found out from a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Literal, TypedDict

import pulumi

from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.component import Checks
from tensorfusion_iac.components.inputs import is_deferred
from tensorfusion_iac.components.platform.settings import CONTAINERS, DEPLOYMENTS, Agents, Settings
from tensorfusion_iac.components.vgpu import nearest

Json = Mapping[str, Any]

RUNTIMES = ("cluster", "local", "external")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_OLDEST = (1, 33)
_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?")
_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)?)")
_AGENT_ARGUMENTS = ("agent_node_selector", "agent_tolerations", "agent_toolkit_folder", "agent_mps", "container_runtime")
_EVERYWHERE = ("runtime", "crds")


class ControlPlaneArguments(TypedDict, total=False):
    """Arguments of ControlPlane (docs/components.md). Only images and names of pull secrets may be Outputs."""

    runtime: Literal["cluster", "local", "external"]
    crds: bool
    webhook_url: str
    kubernetes_version: str
    image: pulumi.Input[str]
    scheduler_image: pulumi.Input[str]
    image_pull_secrets: Sequence[pulumi.Input[str]]
    replicas: int | Mapping[str, int]
    resources: Mapping[str, Json]
    node_selector: Mapping[str, str]
    tolerations: Sequence[Json]
    certificates: Literal["own", "cert-manager"]
    webhook_host_network: bool
    webhook_port: int
    api_server_ports: Sequence[int]
    api_server_cidrs: Sequence[str]
    external_scaler_hosts: Sequence[str]
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]
    monitoring: Literal["prometheus-operator"]
    monitoring_labels: Mapping[str, str]
    timeout_s: float
    agents: bool
    agent_node_selector: Mapping[str, str]
    agent_tolerations: Sequence[Json]
    agent_toolkit_folder: str
    agent_mps: bool
    container_runtime: str


def checked(arguments: Mapping[str, Any]) -> Checks:
    """The arguments that are usable, and the problems of the others."""
    checks = Checks(arguments, ControlPlaneArguments.__annotations__, {})
    given, problems = checks.arguments, checks.problems
    runtime = given.setdefault("runtime", "cluster")
    if runtime not in RUNTIMES:
        problems.append(Problem("runtime", quote(runtime), f"one of {', '.join(RUNTIMES)}", "{found} is not {accepted}"))
        return checks
    _belong(given, runtime, problems)
    checks.flag("crds", "webhook_host_network", "agents", "agent_mps", deferrable=False)
    checks.text("image", "scheduler_image")
    checks.seconds("timeout_s")
    if runtime == "local":
        _local(given, checks)
    elif runtime == "cluster":
        _in_cluster(given, checks)
    return checks


def settings_of(given: Mapping[str, Any]) -> Settings:
    """The settings for `runtime="cluster"`, from arguments without a problem."""
    shared = (
        "image", "scheduler_image", "image_pull_secrets", "resources", "node_selector", "tolerations", "certificates",
        "webhook_host_network", "webhook_port", "api_server_ports", "api_server_cidrs", "external_scaler_hosts", "log_level",
        "monitoring", "monitoring_labels",
    )  # fmt: skip
    replicas = given.get("replicas", {})
    return Settings(
        kubernetes_version=given["kubernetes_version"].removeprefix("v"),
        replicas=replicas if isinstance(replicas, Mapping) else dict.fromkeys(DEPLOYMENTS, replicas),
        agents=_agents(given) if given.get("agents", True) else None,
        **{name: given[name] for name in shared if name in given},
    )


def _agents(given: Mapping[str, Any]) -> Agents:
    fields = {
        "agent_node_selector": "node_selector", "agent_tolerations": "tolerations", "agent_toolkit_folder": "toolkit_folder",
        "agent_mps": "mps", "container_runtime": "runtime_handler",
    }  # fmt: skip
    return Agents(**{field: given[name] for name, field in fields.items() if name in given})


def _belong(given: dict[str, Any], runtime: str, problems: list[Problem]) -> None:
    """What means nothing where the programs run, is a mistake."""
    theirs = {"local": ("webhook_url", "timeout_s"), "external": ()}
    for name in list(given):
        if runtime == "cluster":
            wrong = 'only for runtime="local"' if name == "webhook_url" else ""
            wrong = wrong or ("only with agents" if name in _AGENT_ARGUMENTS and given.get("agents") is False else "")
            wrong = wrong or ("only with monitoring" if name == "monitoring_labels" and "monitoring" not in given else "")
        else:
            wrong = "" if name in (*_EVERYWHERE, *theirs[runtime]) else 'only for runtime="cluster"'
        if wrong:
            del given[name]
            problems.append(Problem(name, "given", wrong, "it is {accepted}; leave it out"))


def _local(given: dict[str, Any], checks: Checks) -> None:
    url = given.get("webhook_url")
    accepted = "the https URL at which the API server reaches the webhook"
    if url is None and "webhook_url" not in checks.misspelled:
        checks.problems.append(Problem("webhook_url", "not given", accepted, "{found}; give {accepted}"))
    elif url is not None and (not isinstance(url, str) or not url.startswith("https://")):
        checks.problems.append(Problem("webhook_url", quote(url), "an https URL"))


def _in_cluster(given: dict[str, Any], checks: Checks) -> None:
    _version(given, checks)
    choices: Mapping[str, Sequence[str]] = {
        "certificates": ("own", "cert-manager"), "log_level": _LEVELS, "monitoring": ("prometheus-operator",),
    }  # fmt: skip
    for name, accepted in choices.items():
        if name in given and given[name] not in accepted:
            checks.problems.append(Problem(name, quote(given.pop(name)), f"one of {', '.join(accepted)}"))
    _keep(given, checks, "webhook_port", _is_port, "a port from 1 to 65535")
    _keep(given, checks, "api_server_ports", _list_of(_is_port), "a list of ports from 1 to 65535")
    _keep(given, checks, "api_server_cidrs", _list_of(_is_cidr), "a list of networks, such as 10.0.0.0/16")
    _keep(given, checks, "external_scaler_hosts", _list_of(_is_host), "a list of HOST or HOST:PORT")
    _keep(given, checks, "replicas", _is_replicas, f"a whole number from 1, or a mapping of {', '.join(DEPLOYMENTS)} to such")
    _keep(given, checks, "tolerations", _list_of(_is_mapping), "a list of tolerations")
    _keep(given, checks, "agent_tolerations", _list_of(_is_mapping), "a list of tolerations")
    _keep(given, checks, "image_pull_secrets", _list_of(_is_text), "a list of names of Secrets")
    _keep(given, checks, "node_selector", _is_texts, "a mapping of labels to texts that is not empty")
    _keep(given, checks, "agent_node_selector", _is_texts, "a mapping of labels to texts that is not empty")
    _keep(given, checks, "monitoring_labels", _is_texts, "a mapping of labels to texts that is not empty")
    _keep(given, checks, "agent_toolkit_folder", lambda path: _is_text(path) and path.startswith("/"), "a path from /")
    _keep(given, checks, "container_runtime", _is_text, "the name of a runtime of containerd, such as nvidia")
    _resources(given, checks)


def _version(given: dict[str, Any], checks: Checks) -> None:
    version, accepted = given.get("kubernetes_version"), "the cluster's Kubernetes version, such as 1.34 or 1.34.2"
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if version is None:
        if "kubernetes_version" not in checks.misspelled:
            checks.problems.append(Problem("kubernetes_version", "not given", accepted, "{found}; give {accepted}"))
    elif found is None:
        checks.problems.append(Problem("kubernetes_version", quote(version), accepted))
    elif tuple(int(part) for part in found.group(1).split(".")[:2]) < _OLDEST:
        oldest = ".".join(str(part) for part in _OLDEST)
        checks.problems.append(Problem("kubernetes_version", quote(version), f"{oldest} or newer", "{found} is not {accepted}"))


def _resources(given: dict[str, Any], checks: Checks) -> None:
    resources = given.get("resources", {})
    if not _is_mapping(resources):
        checks.problems.append(Problem("resources", quote(given.pop("resources")), "a mapping of containers to their resources"))
        return
    for name, value in resources.items():
        if name not in CONTAINERS:
            close = "".join(f"; did you mean {other}?" for other in nearest(name, CONTAINERS)[:1])
            message = f"no container has this name{close} There are {{accepted}}"
            checks.problems.append(Problem(f"resources.{name}", quote(name), ", ".join(CONTAINERS), message))
        elif not _is_mapping(value) or not set(value) <= {"requests", "limits"}:
            checks.problems.append(Problem(f"resources.{name}", quote(value), "a mapping with requests and limits"))


def _keep(given: dict[str, Any], checks: Checks, name: str, fits: Callable[[Any], bool], accepted: str) -> None:
    if name in given and not fits(given[name]):
        checks.problems.append(Problem(name, quote(given.pop(name)), accepted))


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def _is_host(value: Any) -> bool:
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


def _is_cidr(value: Any) -> bool:
    try:
        return isinstance(value, str) and "/" in value and bool(ip_network(value))
    except ValueError:
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_replicas(value: Any) -> bool:
    if isinstance(value, Mapping):
        return set(value) <= set(DEPLOYMENTS) and all(_is_count(count) for count in value.values())
    return _is_count(value)


def _is_text(value: Any) -> bool:
    return is_deferred(value) or (isinstance(value, str) and bool(value.strip()))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(text, str) for text in value.values())


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(fits(item) for item in value)
