"""The README's ten lines run as they are printed, and as their reader is told to cut them for the demo's platform."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mocked import Ran, Run

README = (Path(__file__).parents[2] / "README.md").read_text()
LEFT_OUT = "leave `crds`, `pool` and `gpupool=pool` out of\nthe ten lines"


def ten_lines() -> ast.Module:
    (found,) = re.findall(r"^## Ten lines\n\n```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return ast.parse(str(found))


def ran(run: Run, program: ast.Module) -> Ran:
    return run(lambda: exec(compile(program, "README.md", "exec"), {}))


def test_the_ten_lines_run_without_complaint(run: Run) -> None:
    done = ran(run, ten_lines())
    assert (done.error, done.logged) == (None, [])
    assert done.one(":Deployment")["spec"]["replicas"] == 2


def test_on_the_demos_platform_they_run_without_what_is_left_out(run: Run) -> None:
    assert LEFT_OUT in README
    program = ten_lines()
    program.body = [
        line for line in program.body
        if not (isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id in ("crds", "pool"))
    ]  # fmt: skip
    for call in ast.walk(program):
        if isinstance(call, ast.Call):
            call.keywords = [word for word in call.keywords if word.arg != "gpupool"]
    done = ran(run, program)
    assert (done.error, done.logged) == (None, [])
    assert not any(item.type.endswith("GPUPool") for item in done.registered)


def test_the_mistake_is_shown_in_the_words_of_a_preview(run: Run) -> None:
    program = ten_lines()
    calls = [call for call in ast.walk(program) if isinstance(call, ast.Call)]
    (web,) = [call for call in calls if any(word.arg == "gpu_model" for word in call.keywords)]
    web.keywords = [word for word in web.keywords if word.arg != "qos"]
    web.keywords += [ast.keyword(name, ast.Constant(value)) for name, value in (("vram_limit", "2Gi"), ("qos", "urgent"))]
    done = ran(run, ast.fix_missing_locations(program))
    printed = re.search(r"AnnotatedDeployment \(web\):\n(.*?)\n\n.*?error: (.*?)\n", README, re.DOTALL)
    assert printed
    assert done.messages("error") == re.findall(r"error: (.*)", printed[1])
    assert printed[2] in str(done.error)
