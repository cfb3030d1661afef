"""Hundreds of malformed values: each refuses the pod by an answer that names the annotation and the value (SPEC §2)."""

from __future__ import annotations

import pytest
from resolving import ENOUGH, a_pool, ask

from tensorfusion_iac.api import FIELDS

NO_QUANTITY = (
    "abc", "100%", "4 Gi", " 4Gi", "4Gi ", "4Gi\n", "\t4Gi", "-1Gi", "-0", "-1", "+1", "NaN", "nan", "Inf", "-Inf", "Infinity",
    "1,5", "1_000", "0x10", "4gi", "4GB", "4GiB", "4gb", "10K", "1e", "1e3Gi", "e3", ".", "..5", "1.2.3", "１０", "٣", "½",
    "1e999", "9" * 33, "4Gi,5Gi", "4\u00a0Gi", "\u22124", "4Gi#", "{}", "[1]", "true", "null", "$(ECHO)", "'4Gi'", '"4Gi"',
)  # fmt: skip
NO_TFLOPS = ("0", "0m", "0Gi", "100000", "10Ti", "16Gi", "1M", "1e30")
NO_BYTES = ("0", "0Gi", "10Ti", "10240Gi", str(2**63), str(2**64), "1e30", "1", "4", "16", "80", "0.5", "1048575", "1e3")
NO_PERCENT = ("100.1", "101", "1k", "4Gi", "1e3")
NO_WHOLE = (
    "abc", "-1", "-0", "+1", "1.0", "1.5", "1e1", " 1", "1 ", "01", "00", "１", "1,2", "0x1", "true", "one", "1_0", "9" * 30,
    "NaN", "1Gi",
)  # fmt: skip
NO_INDEX = tuple(text for text in NO_WHOLE if text not in (" 1", "1 ", "1,2"))
NO_BOOL = ("yes", "no", "True", "FALSE", "1", "0", "on", "off", " true", "true ", "t", "truefalse", "null")
NO_NAME = (
    "Chat",
    "chat_1",
    "-chat",
    "chat-",
    "chat.",
    ".chat",
    "a..b",
    "chat 1",
    " chat",
    "chat ",
    "chät",
    "a/b",
    "a,b",
    "x" * 254,
)
NO_LABEL = (*NO_NAME, "x" * 64)
NO_LIST = (",", "a,", ",a", "a,,b", " , ", "a;b", "A", "a_b", "-a", "a b", "x" * 64, "a,a", "ä", '["a"]')
NO_DURATION = ("30", "1d", "30 m", "-30m", "1h-30m", "m", "1.h", ".5h", "PT30M", "30M", "1H", "30min", "8761h", "1e3s", "９m")
NO_SPLIT = (
    "python", "1", "[]", "{}", "null", "true", '"python"', '{"python"}', '{"python":}', '{"python":"1"}', '{"python":1.0}',
    '{"python":1.5}', '{"python":-1}', '{"python":true}', '{"python":null}', '{"python":[1]}', '{"python":{"a":1}}',
    '{"python":129}', '{"python":1e1}', '{"python":NaN}', '{"python":Infinity}', '{"python":1,"python":2}', '{"python":0}',
    '{"Python":1}', '{"":1}', "{'python':1}", '{"python":1}}', '{"python":1} x', '{"python":01}', "[" * 100_000, "9" * 5000,
    '{"python":1', '[{"python":1}]', "python=1", "python:1",
)  # fmt: skip

BAD: dict[str, tuple[str, ...]] = {
    "tflops-request": NO_QUANTITY + NO_TFLOPS,
    "tflops-limit": NO_QUANTITY + NO_TFLOPS,
    "vram-request": NO_QUANTITY + NO_BYTES,
    "vram-limit": NO_QUANTITY + NO_BYTES,
    "compute-percent-request": NO_QUANTITY + NO_PERCENT,
    "compute-percent-limit": (*NO_QUANTITY, *NO_PERCENT, "0", "0.0", "0m"),
    "inject-container": (*NO_LIST, "missing", "python,missing"),
    "qos": ("urgent", "High", "HIGH", " high", "high ", "0", "best-effort", "low,high", "lowest"),
    "is-local-gpu": NO_BOOL,
    "gpu-count": (*NO_WHOLE, "0", "129", "2147483648"),
    "gpupool": (*NO_LABEL, "missing"),
    "vendor": ("nvida", "Nvidia Corp", " NVIDIA", "GPU", "CUDA", "Moore", "NVIDIA,AMD", "ＮＶＩＤＩＡ"),
    "gpu-model": (" A100", "A100 ", "A100,H100", "A100;", "-A100", "A" * 64, "Ａ100", "A100\n", "*", "{A100}"),
    "dedicated-gpu": (*NO_BOOL, "true"),
    "isolation": ("strict", "Soft", "none", "mps", "MIG", " soft", "soft,hard", "true"),
    "gpu-indices": (
        *NO_INDEX,
        ",",
        "0,",
        ",0",
        "0,,1",
        "0,0",
        "1, 1",
        "0;1",
        "0-3",
        "[0,1]",
        "0 1",
        ",".join(map(str, range(129))),
    ),
    "container-gpu-count": (*NO_SPLIT, '{"missing":1}'),
    "workload": NO_LABEL,
    "workload-profile": (*NO_NAME, "missing"),
    "enabled-replicas": (*NO_WHOLE, "2147483648", "50%"),
    "autoscale": NO_BOOL,
    "autoscale-target": ("cpu", "Compute", "VRAM", "compute,vram", "both", " all", "none"),
    "standalone-worker-mode": (*NO_BOOL, "true"),
    "disable-features": (
        "limiter",
        "gpu_limiter",
        "GPU-LIMITER",
        "gpu-limiter;gpu-opt",
        ",",
        "gpu-opt,",
        "gpu-opt,gpu-opt",
        "all",
    ),
    "partition-template": ("1g", "10gb", "1g.10", "1G.10GB", "0g.10gb", "1g.10gb ", "1g-10gb", "1g.10gb+xyz", "1g.10gb", "7"),
    "eviction-protection": NO_DURATION,
    "gang-min-members": (*NO_WHOLE, "1", "2147483648"),
    "gang-timeout": NO_DURATION,
}

ROWS = [(key, text) for key, texts in BAD.items() for text in texts]


def test_every_annotation_has_malformed_values_here_and_there_are_hundreds() -> None:
    assert BAD.keys() == {row.key for row in FIELDS}
    assert len(set(ROWS)) >= 500


@pytest.mark.parametrize(("key", "text"), ROWS, ids=lambda value: value[:30] if isinstance(value, str) else None)
def test_a_malformed_value_refuses_the_pod_and_the_annotation_is_named(key: str, text: str) -> None:
    asked = {} if key in ("vram-request", "vram-limit") else ENOUGH
    resolution = ask({**asked, key: text}, pools=[a_pool()])
    assert resolution.worker is None
    assert {problem.field for problem in resolution.problems} == {key}
    for problem in resolution.problems:
        assert problem.found
        assert problem.accepted in problem.sentence()
