"""`make test-gpu` itself: its tests pass on cards that are right, and do not pass silently where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fake_nvml import Fake

CHECKOUT = Path(__file__).parents[2]


def run(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CHECKOUT / "tests" / "gpu")]
    return subprocess.run(command, env={**environment}, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)


def test_the_gpu_suite_passes_on_simulated_cards(fake: Fake) -> None:
    fake.add_card()
    fake.add_card("NVIDIA L40S", 48)
    done = run(fake.environment)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_without_a_driver_it_fails_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")  # found first, should this machine have a driver
    done = run({"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "NO GPU HERE" in done.stdout
