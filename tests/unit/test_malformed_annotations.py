"""Malformed annotations, at least 300 of them: each is refused through `tensorfusion validate`, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_runs import findings, pod_with, run, validated

from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import PREFIX

BLANK = ("", " ", "\t", "\n", " \t ", " ")
NOT_TEXT = (None, 0, 7, 1.5, True, False, ["10"], {"value": "10"}, [])

QUANTITY = (
    "abc", "-1", "+1", "4 Gi", " 4Gi", "4Gi ", "4GiB", "4gi", "4GI", "Gi", "0x10", "１０", "1_000", "1,000", "10,5", "1/2", "NaN",
    "nan", "Inf", "-Inf", "∞", "1e", "e3", "1e999", "1e+", "--1", "1..5", ".", "0", "0.0", "0Gi", "1;2", "10Zi", "4G i", "Ten",
    "１Gi", "4Gi\n", "4Gi\x00", "1e1e1", "100%", "9" * 40, "1" + "0" * 31,
)  # fmt: skip
FLAG = ("True", "FALSE", "yes", "no", "1", "0", "on", "true ", " true", "truee", "t", '"true"', "truе")
NAME = ("Upper", "under_score", "-a", "a-", ".a", "a.", "a b", "a/b", "ä", "a" * 254, "a\n", "a..b", "{name}", "*")
LIST_OF_NAMES = ("main,", ",main", "main,,main", "main;main", "Main", "other", "main,other", "main,main", "ma in", "[main]", ",")
WHOLE = ("-1", "+1", "1.0", "1.5", "01", "1e2", "0x1", "１", "one", "1 ", " 1", "1,0", "2147483648", "9" * 20, "NaN", "1m")
WORD = ("LOW", "Low", " low", "low ", "lowest", "0", "low,high", "*", "none", "hіgh")
DURATION = ("30", "m", "-30m", "30 m", "30min", "1d", "1h 30m", "９m", "1.m", ".5h", "99999h", "1h30", "inf", "30M", "+5m")

MALFORMED: dict[str, tuple[str, ...]] = {
    "tflops-request": (*QUANTITY, "100000", "10Ti", "16Gi", "1e5"),
    "tflops-limit": (*QUANTITY, "100000", "10Ti", "16Gi", "1e5"),
    "vram-request": (*QUANTITY, "10Ti", "8", "1000", "1e30", "9223372036854775808", "16Ei"),
    "vram-limit": (*QUANTITY, "10Ti", "8", "1000", "1e30", "9223372036854775808", "16Ei"),
    "compute-percent-request": (*(value for value in QUANTITY if not value.startswith("0")), "101", "100.1", "-0", "1e3", "4Gi"),
    "compute-percent-limit": (*QUANTITY, "101", "100.1", "-0", "1e3", "4Gi"),
    "inject-container": LIST_OF_NAMES,
    "qos": WORD,
    "is-local-gpu": FLAG,
    "gpu-count": (*WHOLE, "0", "129"),
    "gpupool": (*NAME, "a" * 64),
    "vendor": ("Nvidia Corp", "NVIDIA,AMD", "N/A", "MooreThread", "ＮＶＩＤＩＡ", "*", " NVIDIA", "3dfx"),
    "gpu-model": (" A100", "A100 ", "-A100", "A100,H100", "A100\nH100", "*", "Ａ100", "A" * 64, "{A100}", "A100;"),
    "dedicated-gpu": FLAG,
    "isolation": ("SOFT", "Soft", "mig", "none", "soft,hard", " soft", "soft "),
    "gpu-indices": ("0,", ",0", "0,,1", "-1", "0;1", "0 1", "a", "0,0", "1.0", "0x1", "０", "[0]", "0-3", "2147483648", ","),
    "container-gpu-count": (
        "1", "null", "[]", "{}", '{"main":-1}', '{"main":1.5}', '{"main":"1"}', '{"main":true}', '{"main":null}', '{"main":129}',
        '{"main":0}', "{main:1}", "{'main':1}", '{"main":1', '{"main":1}}', '{"main":1,"main":1}', '{"other":1}', '{"":1}',
        '{"Main":1}', '{"main":NaN}', '{"main":1e2}', "main=1", '[{"main":1}]', '{"main":[1]}', "[" * 100_000,
    ),
    "workload": (*NAME, "a" * 64),
    "workload-profile": NAME,
    "enabled-replicas": WHOLE,
    "autoscale": FLAG,
    "autoscale-target": ("Compute", "cpu", "compute,vram", "tflops", "All", " all", "none"),
    "standalone-worker-mode": FLAG,
    "disable-features": ("gpu_limiter", "GPU-LIMITER", "all", "gpu-limiter,", "gpu-limiter,,gpu-opt", "gpu-limiter;gpu-opt",
                         "gpu-opt,gpu-opt", "none", "gpu-limiter mem-manager", "*"),
    "partition-template": ("1g", "10gb", "0g.10gb", "1g.0gb", "1G.10GB", "1g.10GB", "1g 10gb", "mig-1g.10gb", "1g.10gb+xx", "*"),
    "eviction-protection": DURATION,
    "gang-min-members": ("1", *WHOLE),
    "gang-timeout": DURATION,
}  # fmt: skip


def test_the_table_is_long_enough_and_names_every_annotation() -> None:
    assert len(set(MALFORMED)) == len(BY_KEY)
    assert sum(map(len, MALFORMED.values())) >= 300


@pytest.mark.parametrize("name", BY_KEY)
def test_every_malformed_value_is_refused_and_the_annotation_named(name: str) -> None:
    values: list[Any] = [*BLANK, *NOT_TEXT, *MALFORMED[name]]
    beside = {"tensor-fusion.ai/tflops-request": "10"} if name.startswith("vram") else {"tensor-fusion.ai/vram-request": "4Gi"}
    pods = [pod_with({**beside, PREFIX + name: value}) for value in values]
    code, report = validated("-f", "-", stdin="\n".join(pods))
    assert code == 1
    assert not report["unreadable"]
    named = [{finding["field"] for finding in item["problems"]} for item in report["objects"]]
    assert [value for value, found in zip(values, named, strict=True) if found != {PREFIX + name}] == []
    assert all(finding["accepted"] and finding["message"] for finding in findings(report))


@pytest.mark.parametrize("name", BY_KEY)
def test_the_text_names_the_annotation_and_the_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod\n  labels: {tensor-fusion.ai/enabled: 'true'}\n  annotations:\n"
        f"    {PREFIX}{name}: ''\nspec: {{containers: [{{name: main}}]}}\n"
    )
    result = run("validate", "-f", file)
    assert result.exit_code == 1
    assert f'line 7: {PREFIX}{name}: "" is empty' in result.stderr
    assert str(file) in result.stderr
