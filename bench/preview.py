"""P7: `pulumi preview` of many AnnotatedDeployments, against the same Deployments each in an empty component.

The real pulumi, provider and API server (an embedded control plane, started here and ended with the run), a stack that holds
nothing yet, so that every resource is registered, checked and dry-run. Also reported: against plain Deployments, and what the
`annotate` transformation costs on those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from measure import Pair, Row, describe, interleaved, quick, repeats, report

from tensorfusion_iac.local import control_plane, pulumi_home
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.toolchain import ensure, to_stderr

COUNT = 60 if quick() else 500
GOAL = 1.15
TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "pulumi",
         "pulumi-resource-kubernetes")  # fmt: skip

HEAD = f"""
import pulumi
import pulumi_kubernetes as k8s

NAMES = [f"w{{index}}" for index in range({COUNT})]

def vram(name):
    return f"{{int(name[1:]) % 40 + 1}}Gi"

def deployment(name, metadata, opts=None):
    containers = [{{"name": name, "image": "registry.example/app:1", "args": ["serve"], "ports": [{{"containerPort": 8000}}]}}]
    template = {{"metadata": {{**metadata, "labels": {{"app": name, **metadata.get("labels", {{}})}}}},
                "spec": {{"containers": containers}}}}
    spec = {{"replicas": 2, "selector": {{"matchLabels": {{"app": name}}}}, "template": template}}
    k8s.apps.v1.Deployment(name, metadata={{"name": name, "namespace": "default"}}, spec=spec, opts=opts)

def by_hand(name):
    prefix = "tensor-fusion.ai/"
    return {{"labels": {{prefix + "enabled": "true"}}, "annotations": {{
        prefix + "tflops-request": "10", prefix + "tflops-limit": "20", prefix + "vram-request": vram(name),
        prefix + "qos": "high", prefix + "gpu-model": "A100"}}}}
"""
PROGRAMS = {
    "components": HEAD
    + """
import tensorfusion_iac as tfi
for name in NAMES:
    tfi.AnnotatedDeployment(name, namespace="default", replicas=2, image="registry.example/app:1", args=["serve"], ports=[8000],
        vgpu=tfi.VGPU(tflops_request=10, tflops_limit=20, vram_request=vram(name), qos="high", gpu_model="A100"))
""",
    "empty components": HEAD
    + """
class Empty(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("bench:index:Empty", name)
        deployment(name, by_hand(name), pulumi.ResourceOptions(parent=self))

for name in NAMES:
    Empty(name)
""",
    "plain": HEAD
    + """
for name in NAMES:
    deployment(name, by_hand(name))
""",
    "transformed": HEAD
    + """
import tensorfusion_iac as tfi
for name in NAMES:
    vgpu = tfi.VGPU(tflops_request=10, tflops_limit=20, vram_request=vram(name), qos="high", gpu_model="A100")
    deployment(name, {}, pulumi.ResourceOptions(transformations=[tfi.annotate(vgpu)]))
""",
}
"""Programs that send the same Deployments, annotations included."""


def previewing(folder: Path, environment: Mapping[str, str], name: str) -> Callable[[], float]:
    """A measurement: the seconds of one `pulumi preview` of a program."""
    here = folder / name.replace(" ", "-")
    here.mkdir()
    (here / "Pulumi.yaml").write_text(
        f"name: {here.name}\nruntime:\n  name: python\n  options:\n    virtualenv: {Path(sys.prefix)}\n"
    )
    (here / "__main__.py").write_text(PROGRAMS[name])

    def run(*arguments: str) -> None:
        done = subprocess.run(["pulumi", *arguments], cwd=here, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)

    run("stack", "init", "bench", "--non-interactive")

    def seconds() -> float:
        begin = time.perf_counter()
        run("preview", "--non-interactive", "--suppress-progress")
        return time.perf_counter() - begin

    return seconds


def measure(folder: Path) -> tuple[Pair, Pair | None]:
    """Components against empty ones; in a full run also the transformation against plain Deployments."""
    layout = Layout.at(folder / "plane")
    tools = ensure(list(TOOLS))
    control_plane.up(layout, control_plane.Wish(), lambda: tools, to_stderr, owner_pid=os.getpid())
    try:
        pulumi_home.prepare(layout, tools)
        environment = pulumi_home.environment(layout, os.environ["PATH"])
        ready = {name: previewing(folder, environment, name) for name in PROGRAMS}
        return (
            interleaved(ready["components"], ready["empty components"], repeats(5)),
            None if quick() else interleaved(ready["transformed"], ready["plain"], repeats(5)),
        )
    finally:
        control_plane.purge(layout, to_stderr)


def main() -> int:
    """Measure and report."""
    with tempfile.TemporaryDirectory() as folder:
        ours, transformed = measure(Path(folder))
    print(describe(f"preview of {COUNT} AnnotatedDeployments", ours.ours, "s"))
    print(describe(f"preview of {COUNT} Deployments in empty components", ours.baseline, "s"))
    rows = [
        Row("P7", f"preview of {COUNT} AnnotatedDeployments", ours.ours.median, "s", ours.baseline.median,
            ours.ratio.median, f"<= {GOAL} x", ours.ratio.median <= GOAL)
    ]  # fmt: skip
    if transformed is not None:
        plain_s = transformed.baseline.median
        print(describe(f"preview of {COUNT} plain Deployments", transformed.baseline, "s"))
        rows += [
            Row("P7", "the same against plain Deployments", ours.ours.median, "s", plain_s, ours.ours.median / plain_s),
            Row("P7", "the annotate transformation on plain Deployments", transformed.ours.median, "s", plain_s,
                transformed.ratio.median),
        ]  # fmt: skip
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
