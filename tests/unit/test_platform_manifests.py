"""What runs in a cluster, as manifests: against what is written in SPEC §9, ENFORCEMENT.md and R9."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tensorfusion_iac.components import platform
from tensorfusion_iac.components.platform.agents import CAPABILITIES

SETTINGS = platform.Settings(kubernetes_version="1.34", image="registry.example/tensorfusion:1")
AGENTS = platform.Agents()
DEPLOYMENTS = {"tensor-fusion-controller", "tensor-fusion-scheduler", "tensor-fusion-webhook"}


def manifests(settings: platform.Settings = SETTINGS) -> list[dict[str, Any]]:
    made = [*platform.controller(settings), *platform.webhook(settings), *platform.scheduler(settings)]
    return made + (list(platform.agents(settings, settings.agents)) if settings.agents else [])


def of_kind(kind: str, settings: platform.Settings = SETTINGS) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in manifests(settings) if item["kind"] == kind}


def pod_of(item: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


def containers(kind: str, settings: platform.Settings = SETTINGS) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in of_kind(kind, settings).values():
        for container in pod_of(item)["containers"]:
            yield container["name"], container


def agent(settings: platform.Settings = SETTINGS) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The agents' pod, and its containers."""
    pod = pod_of(of_kind("DaemonSet", settings)["tensor-fusion-agent"])
    return pod, {container["name"]: container for container in pod["containers"]}


def test_there_are_three_deployments_of_two_replicas_each_with_a_disruption_budget() -> None:
    found = of_kind("Deployment")
    assert found.keys() == DEPLOYMENTS == of_kind("PodDisruptionBudget").keys()
    assert {item["spec"]["replicas"] for item in found.values()} == {2}
    some = replace(SETTINGS, replicas={"webhook": 3})
    assert of_kind("Deployment", some)["tensor-fusion-webhook"]["spec"]["replicas"] == 3


def test_no_container_of_a_deployment_may_anything() -> None:
    for name, item in of_kind("Deployment").items():
        context = pod_of(item)["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["runAsUser"] > 0, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostPID", "hostNetwork", "hostIPC"} & pod_of(item).keys(), name
    for name, container in containers("Deployment"):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "privileged": False,
            "readOnlyRootFilesystem": True,
        }, name  # fmt: skip


def test_every_container_has_resources_and_those_of_programs_have_probes() -> None:
    for kind in ("Deployment", "DaemonSet"):
        for name, container in containers(kind):
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert container["resources"]["limits"].keys() == {"memory"}, name
            probes = {"startupProbe", "readinessProbe", "livenessProbe"}
            assert probes <= container.keys() or name == "watchdog"


def test_only_the_agents_pod_sees_the_host_and_each_of_its_capabilities_has_a_reason() -> None:
    pod, found = agent()
    assert pod["hostPID"] is True
    assert found["agent"]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["KILL", "SYS_ADMIN"]}
    assert found["agent"]["securityContext"]["privileged"] is False
    assert all(CAPABILITIES.values())
    assert found["watchdog"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert found["watchdog"]["command"][-1] == "tensorfusion_iac.agent.watchdog"
    for container in found.values():
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["cgroups"] == "/host/sys/fs/cgroup"
        assert mounts["run"] == "/run/tensor-fusion"


def test_mps_needs_a_privileged_agent_and_nothing_else_does() -> None:
    pod, found = agent(replace(SETTINGS, agents=replace(AGENTS, mps=True)))
    assert found["agent"]["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert {item["name"]: item for item in found["agent"]["env"]}["NVIDIA_DRIVER_CAPABILITIES"]["value"] == "compute,utility"
    run = next(mount for mount in found["agent"]["volumeMounts"] if mount["name"] == "run")
    assert run["mountPropagation"] == "Bidirectional"
    assert pod["hostPID"] is True


def test_agents_run_on_gpu_nodes_one_at_a_time_and_nobody_waits_for_them() -> None:
    found = of_kind("DaemonSet")["tensor-fusion-agent"]
    assert found["metadata"]["namespace"] == "tensor-fusion-agent"
    assert found["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert found["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    assert pod_of(found)["nodeSelector"] == {"kubernetes.io/os": "linux", "nvidia.com/gpu.present": "true"}
    assert pod_of(found)["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod_of(found)["runtimeClassName"] in of_kind("RuntimeClass")


def test_our_scheduler_has_one_profile_and_a_lease_that_is_not_the_clusters() -> None:
    config = yaml.safe_load(of_kind("ConfigMap")["tensor-fusion-scheduler"]["data"]["config.yaml"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["tensor-fusion-scheduler"]
    lease = config["leaderElection"]
    assert (lease["resourceNamespace"], lease["resourceName"]) == ("tensor-fusion-system", "tensor-fusion-scheduler")
    assert config["clientConnection"]["kubeconfig"] == ""
    assert [extender["urlPrefix"] for extender in config["extenders"]] == ["http://127.0.0.1:9480"]
    extender = dict(containers("Deployment"))["scheduler"]
    assert "--lease=tensor-fusion-system/tensor-fusion-scheduler" in extender["args"]


def test_another_configuration_rolls_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def checksum() -> str:
        template = of_kind("Deployment")["tensor-fusion-scheduler"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    before = checksum()
    monkeypatch.setattr("tensorfusion_iac.scheduling.profile.WEIGHT", 6)
    assert checksum() != before


@pytest.mark.parametrize(
    ("version", "image", "used"),
    [
        ("1.34", "", "registry.k8s.io/kube-scheduler:v1.34.0"),
        ("1.34.2", "", "registry.k8s.io/kube-scheduler:v1.34.2"),
        ("1.34.2", "mirror.example/scheduler:v1.34.2", "mirror.example/scheduler:v1.34.2"),
    ],
)
def test_kube_scheduler_is_of_the_clusters_version(version: str, image: str, used: str) -> None:
    settings = replace(SETTINGS, kubernetes_version=version, scheduler_image=image)
    assert dict(containers("Deployment", settings))["kube-scheduler"]["image"] == used


def test_what_is_given_for_all_pods_is_in_all_pods() -> None:
    toleration = {"key": "platform", "operator": "Exists"}
    settings = replace(SETTINGS, image_pull_secrets=["pull"], tolerations=[toleration], log_level="DEBUG")
    settings = replace(settings, node_selector={"pool": "system"})
    for item in of_kind("Deployment", settings).values():
        assert pod_of(item)["imagePullSecrets"] == [{"name": "pull"}]
        assert pod_of(item)["tolerations"] == [toleration]
        assert pod_of(item)["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert agent(settings)[0]["imagePullSecrets"] == [{"name": "pull"}]
    for name, container in (*containers("Deployment", settings), *containers("DaemonSet", settings)):
        if name not in ("kube-scheduler", "watchdog"):
            assert {"name": "LOG_LEVEL", "value": "DEBUG"} in container["env"]
        if name != "kube-scheduler":
            assert container["image"] == "registry.example/tensorfusion:1"


def test_in_the_hosts_network_the_webhook_has_its_port_and_replaces_pods_one_by_one() -> None:
    settings = replace(SETTINGS, webhook_host_network=True, webhook_port=10443)
    item = of_kind("Deployment", settings)["tensor-fusion-webhook"]
    assert pod_of(item)["hostNetwork"] is True
    assert item["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert pod_of(item)["containers"][0]["ports"] == [{"name": "https", "containerPort": 10443, "protocol": "TCP"}]
    assert of_kind("Service", settings)["tensor-fusion-webhook"]["spec"]["ports"][0]["targetPort"] == "https"


def test_cert_manager_makes_the_secret_that_the_webhook_reads_and_injects_its_authority() -> None:
    settings = replace(SETTINGS, certificates="cert-manager")
    made = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in platform.certificate()}
    issued = made["Certificate", "tensor-fusion-webhook"]
    issuer = made["Issuer", issued["issuerRef"]["name"]]
    authority = next(spec for (kind, _), spec in made.items() if kind == "Certificate" and spec.get("isCA"))
    assert issuer == {"ca": {"secretName": authority["secretName"]}}
    assert authority["privateKey"]["rotationPolicy"] == "Never", "else the webhook's certificate is not trusted for a while"
    pod = pod_of(of_kind("Deployment", settings)["tensor-fusion-webhook"])
    volume = next(item for item in pod["volumes"] if item["name"] == "tls")
    assert volume["secret"]["secretName"] == issued["secretName"] == "tensor-fusion-webhook-tls"
    assert "--tls=/etc/tensor-fusion/tls" in pod["containers"][0]["args"]
    assert "tensor-fusion-webhook.tensor-fusion-system.svc" in issued["dnsNames"]
    marked = platform.injected({"metadata": {"name": "x"}})
    assert marked["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "tensor-fusion-system/tensor-fusion-webhook"}


def reach(settings: platform.Settings) -> dict[str, tuple[list[int], list[int] | str]]:
    """By policy: the ports that are open, and those that may be called."""
    found: dict[str, tuple[list[int], list[int] | str]] = {}
    for item in platform.network_policies(settings):
        spec = item["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        ingress = [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
        egress: list[int] | str = "all" if spec.get("egress") == [{}] else []
        egress = egress or [port["port"] for rule in spec.get("egress", []) for port in rule["ports"]]
        found[f"{item['metadata']['namespace']}/{item['metadata']['name']}"] = (ingress, egress)
    return found


def test_nothing_is_reached_but_what_has_to_be() -> None:
    server = [443, 6443]
    assert reach(SETTINGS) == {
        "tensor-fusion-system/deny": ([], []),
        "tensor-fusion-system/tensor-fusion-webhook": ([9443], server),
        "tensor-fusion-system/tensor-fusion-scheduler": ([], server),
        "tensor-fusion-system/tensor-fusion-controller": ([], [*server, 9461]),
        "tensor-fusion-agent/deny": ([], []),
        "tensor-fusion-agent/tensor-fusion-agent": ([9461], server),
    }
    monitored = reach(replace(SETTINGS, monitoring="prometheus-operator", api_server_ports=[16443]))
    assert monitored["tensor-fusion-system/tensor-fusion-scheduler"] == ([9481], [16443])
    assert monitored["tensor-fusion-system/tensor-fusion-controller"] == ([9480], [16443, 9461])
    assert monitored["tensor-fusion-agent/tensor-fusion-agent"] == ([9461, 9460], [16443])


def test_where_the_api_servers_addresses_are_known_it_alone_may_call_the_webhook_and_read_the_agents_metrics() -> None:
    settings = replace(SETTINGS, api_server_cidrs=["10.1.0.0/16", "fd00::/64"])
    server = [{"ipBlock": {"cidr": "10.1.0.0/16"}}, {"ipBlock": {"cidr": "fd00::/64"}}]
    rules = {
        (item["metadata"]["name"], port["port"]): rule.get("from")
        for item in platform.network_policies(settings) for rule in item["spec"].get("ingress", []) for port in rule["ports"]
    }  # fmt: skip
    assert rules["tensor-fusion-webhook", 9443] == rules["tensor-fusion-agent", 9460] == server
    assert rules["tensor-fusion-agent", 9461] != server, "the history stays the controller's"


def test_external_scalers_are_the_controllers_only_way_to_elsewhere() -> None:
    settings = replace(SETTINGS, external_scaler_hosts=["scaler.example:8443"])
    assert reach(settings)["tensor-fusion-system/tensor-fusion-controller"] == ([], "all")
    (container,) = next(iter(
        item["spec"]["template"]["spec"]["containers"] for item in platform.controller(settings) if item["kind"] == "Deployment"
    ))  # fmt: skip
    assert "--external-scaler-host=scaler.example:8443" in container["args"]


def test_the_agents_history_is_for_the_controller_alone() -> None:
    policy = next(item for item in platform.network_policies(SETTINGS) if item["metadata"]["name"] == "tensor-fusion-agent")
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tensor-fusion-system"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tensor-fusion-controller"}},
        }
    ]


def test_every_program_is_scraped_where_it_serves_metrics() -> None:
    settings = replace(SETTINGS, monitoring="prometheus-operator", monitoring_labels={"release": "prometheus"})
    made = list(platform.monitors(settings))
    services = {item["spec"]["selector"]["app.kubernetes.io/name"]: item for item in made if item["kind"] == "Service"}
    ports = {
        program: {port["containerPort"] for container in pod_of(item)["containers"] for port in container["ports"]}
        for program, item in of_kind("Deployment", settings).items()
    }
    ports["tensor-fusion-agent"] = {port["containerPort"] for port in agent(settings)[1]["agent"]["ports"]}
    assert services.keys() == ports.keys()
    for program, service in services.items():
        assert service["spec"]["ports"][0]["port"] in ports[program]
    monitors = [item for item in made if item["kind"] == "ServiceMonitor"]
    assert len(monitors) == len(services)
    for item in [*monitors, *(rule for rule in made if rule["kind"] == "PrometheusRule")]:
        assert item["metadata"]["labels"]["release"] == "prometheus"


def test_without_agents_nothing_of_theirs_is_left() -> None:
    settings = replace(SETTINGS, agents=None, monitoring="prometheus-operator")
    made = [*manifests(settings), *platform.network_policies(settings), *platform.monitors(settings)]
    assert not [item for item in made if item["metadata"].get("namespace") == "tensor-fusion-agent"]
