"""What a type checker says of programs: numbers, texts, enums and Outputs pass; misspelled and senseless values do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import pulumi
import tensorfusion_iac as tfi
from tensorfusion_iac.api import Isolation, QoS

late: pulumi.Output[str] = pulumi.Output.from_input("4Gi")
profile = tfi.WorkloadProfile("p", namespace=late, vgpu=tfi.VGPU(tflops_request=10, vram_request=late))
tfi.VGPU(tflops_request=10, tflops_limit="20", vram_request=4 * 2**30, compute_percent_request=12.5)
tfi.VGPU(qos="high", isolation=Isolation.SOFT, is_local_gpu=True, dedicated_gpu="true", gpu_indices=[0, 1])
tfi.VGPU(qos=QoS.HIGH, container_gpu_count={"trainer": 3}, disable_features=["gpu-opt"])
tfi.VGPU(qos=late, isolation=late, is_local_gpu=late, gpu_count=pulumi.Output.from_input(2))
chat = tfi.AnnotatedDeployment("chat", image=late, replicas=3, workload_profile=profile, gpupool="p", ports=[8000],
    env={"A": late}, vgpu=tfi.VGPU(vram_request="1Gi"), containers=[{"name": "a"}], wait=True, timeout_s=1.5)
tfi.AnnotatedDeployment.from_manifest("legacy", "legacy.yaml", vgpu=tfi.VGPU(vram_request="1Gi"))
tfi.GPUPool("pool", default_using_local_gpu=True, node_selector={"a": "b"}, default_qos="low", tflops_oversell_ratio=150)
pulumi.export("chat", chat.requested)

tfi.VGPU(qos="urgent")  # wrong
tfi.VGPU(tflop_request=10)  # wrong
tfi.VGPU(gpu_count=[1])  # wrong
tfi.AnnotatedDeployment("chat", imge="x")  # wrong
tfi.AnnotatedDeployment("chat", image="x", replicas="three")  # wrong
tfi.AnnotatedJob("train", image="x", vgpu={"qos": "low"})  # wrong
tfi.GPUPool("pool", node_selector={"a": "b"})  # wrong
"""


def test_mypy_accepts_what_is_right_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", root / "pyproject.toml", program],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert refused == wrong, run.stdout
