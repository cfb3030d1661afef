"""The pages about the command line say what the commands do."""

from __future__ import annotations

import re

import pytest
from cli_runs import ROOT

from tensorfusion_iac.cli.application import COMMANDS, load
from tensorfusion_iac.cli.reference import render_cli_markdown

GUIDE = (ROOT / "docs" / "cli.md").read_text()


def test_the_reference_page_is_the_commands_own_help() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert page == render_cli_markdown(), "run: make docs"


def test_the_guide_names_every_command() -> None:
    assert [entry.name for entry in COMMANDS if f"`{entry.name}`" not in GUIDE and f"`{entry.name}," not in GUIDE] == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_option_in_the_guides_examples_exists(entry: object) -> None:
    command = load(entry)  # type: ignore[arg-type]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for line in re.findall(rf"tensorfusion {entry.name}\b([^|\n`]*)", GUIDE):  # type: ignore[attr-defined]
        used = set(re.findall(r"(?<!\S)-{1,2}[a-z][a-z-]*", line.split("#")[0]))
        assert used <= known, line
