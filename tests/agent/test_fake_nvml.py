"""The fake under the real pynvml: same structures, and the answers that a driver would give."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from typing import Any

import fake_nvml
import pynvml
import pytest
from fake_nvml import GPU_IS_LOST, Fake

STRUCTURES = (
    "c_nvmlMemory_t", "c_nvmlMemory_v2_t", "c_nvmlUtilization_t", "c_nvmlProcessInfo_v3_t", "c_nvmlProcessUtilizationSample_t",
    "c_nvmlProcessUtilizationInfo_v1_t", "c_nvmlProcessesUtilizationInfo_v1_t", "nvmlPciInfo_t", "c_nvmlEventData_t",
    "c_nvmlFieldValue_t", "c_nvmlGpuInstancePlacement_t", "c_nvmlGpuInstanceProfileInfo_v2_t", "c_nvmlGpuInstanceInfo_t",
    "c_nvmlComputeInstanceProfileInfo_v2_t", "c_nvmlComputeInstanceInfo_t", "c_nvmlSetMemoryLimits_v1_t",
    "c_nvmlGetMemoryLimits_v1_t",
)  # fmt: skip
VERSIONED = {
    "c_nvmlMemory_v2_t": pynvml.nvmlMemory_v2,
    "c_nvmlProcessesUtilizationInfo_v1_t": pynvml.ProcessesUtilizationInfo_v1,
    "c_nvmlGpuInstanceProfileInfo_v2_t": pynvml.nvmlGpuInstanceProfileInfo_v2,
    "c_nvmlComputeInstanceProfileInfo_v2_t": pynvml.nvmlComputeInstanceProfileInfo_v2,
}


def ask(fake: Fake, expression: str) -> Any:
    """The value of an expression in a child that has initialised pynvml; `card` is the first card's handle."""
    program = (
        "import json, pynvml\n"
        "from pynvml import *\n"
        "nvmlInit()\n"
        "def handle(index=0): return nvmlDeviceGetHandleByIndex(index)\n"
        "def error(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except NVMLError as failure: return failure.value\n"
        f"print(json.dumps({expression}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env=fake.environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_has_the_size_that_pynvml_gives_it(fake: Fake, name: str) -> None:
    library = ctypes.CDLL(str(fake.library))
    assert library.fakeSizeOf(name.encode()) == ctypes.sizeof(getattr(pynvml, name))
    if name in VERSIONED:
        assert VERSIONED[name] & 0xFFFFFF == ctypes.sizeof(getattr(pynvml, name))


@pytest.mark.parametrize("name", ["State", "Card", "Process"])
def test_the_state_file_has_one_layout_in_c_and_python(fake: Fake, name: str) -> None:
    library = ctypes.CDLL(str(fake.library))
    assert library.fakeSizeOf(name.encode()) == ctypes.sizeof(getattr(fake_nvml, name))


def test_pynvml_reads_the_cards(fake: Fake) -> None:
    fake.add_card("NVIDIA L40S", 48, numa_node=1)
    fake.add_card()
    expression = (
        "[nvmlSystemGetDriverVersion(), nvmlDeviceGetCount(), nvmlDeviceGetName(handle()), nvmlDeviceGetUUID(handle(1)),"
        " nvmlDeviceGetMemoryInfo(handle(), version=nvmlMemory_v2).reserved, nvmlDeviceGetNumaNodeId(handle()),"
        " nvmlDeviceGetPciInfo_v3(handle(1)).busId]"
    )
    assert ask(fake, expression) == [
        "615.71.05", 2, "NVIDIA L40S", fake.cards[1].uuid.decode(), 600 * 2**20, 1, "00000000:02:00.0",
    ]  # fmt: skip


def test_a_lost_card_fails_alone(fake: Fake) -> None:
    fake.add_card().error = GPU_IS_LOST
    fake.add_card("Tesla T4", 16)
    assert ask(fake, "[nvmlDeviceGetCount(), error(handle, 0), nvmlDeviceGetName(handle(1))]") == [2, GPU_IS_LOST, "Tesla T4"]


def test_an_old_driver_lacks_the_symbol_of_memory_limits(old_fake: Fake) -> None:
    old_fake.add_card()
    assert ask(old_fake, "error(nvmlDeviceGetMemoryLimits_v1, handle(), c_nvmlGetMemoryLimits_v1_t())") == (
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    )


def test_a_call_answers_what_a_test_tells_it_to(fake: Fake) -> None:
    fake.add_card()
    fake.answer("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert ask(fake, "error(nvmlDeviceGetUtilizationRates, handle())") == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize(("idle_success", "code"), [(0, pynvml.NVML_ERROR_NOT_FOUND), (1, pynvml.NVML_SUCCESS)])
def test_an_idle_card_answers_as_drivers_do(fake: Fake, idle_success: int, code: int) -> None:
    fake.add_card().idle_success = idle_success
    assert ask(fake, "error(nvmlDeviceGetProcessUtilization, handle(), 0)") == code


def test_samples_are_the_newest_of_each_process(fake: Fake) -> None:
    card = fake.add_card()
    for pid, sm, time_us in ((7, 10, 1000), (8, 20, 1000), (7, 30, 2000)):
        fake.add_sample(card, pid, sm, time_us)
    read = "sorted((each.pid, each.smUtil, each.timeStamp) for each in nvmlDeviceGetProcessUtilization(handle(), {}))"
    assert ask(fake, read.format(0)) == [[7, 30, 2000], [8, 20, 1000]]
    assert ask(fake, read.format(1500)) == [[7, 30, 2000]]


def test_handles_are_stale_after_a_reset_until_the_library_starts_again(fake: Fake) -> None:
    fake.add_card()
    program = (
        "import sys, pynvml as p\n"
        "p.nvmlInit()\n"
        "old = p.nvmlDeviceGetHandleByIndex(0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "try: p.nvmlDeviceGetName(old)\n"
        "except p.NVMLError as failure: print(failure.value)\n"
        "p.nvmlShutdown(); p.nvmlInit()\n"
        "print(p.nvmlDeviceGetName(p.nvmlDeviceGetHandleByIndex(0)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], env=fake.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        fake.reset_card(fake.cards[0])
        out, _ = child.communicate("go\n", timeout=30)
    assert out.split("\n")[:2] == [str(GPU_IS_LOST), "NVIDIA A100-SXM4-80GB"]


def test_a_job_gets_the_whole_card_and_two_get_half_each(fake: Fake) -> None:
    fake.add_card()
    with fake.working():
        jobs = [fake.start_job(sync_kernels=0, depth=50) for _ in range(2)]
        try:
            begin = [fake.job_seconds(job.pid) for job in jobs]
            time.sleep(1.5)
            given = [fake.job_seconds(job.pid) - was for job, was in zip(jobs, begin, strict=True)]
        finally:
            for job in jobs:
                job.kill()
                job.communicate()
    assert given[0] / sum(given) == pytest.approx(0.5, abs=0.03)
    samples = {sample.pid for sample in fake.cards[0].samples if sample.pid}
    assert samples == {job.pid for job in jobs}
