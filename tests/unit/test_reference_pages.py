"""The generated pages say what the programs do: they are what the generator writes, and the README carries its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorfusion_iac.api.fields import FIELDS
from tensorfusion_iac.api.reference import README, annotations_table, pages, with_annotations
from tensorfusion_iac.api.reference.__main__ import main

CHECKOUT = Path(__file__).parents[2]
PAGES = pages((CHECKOUT / README).read_text("utf-8"))


@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_up_to_date(path: str) -> None:
    """`make docs` rewrites it."""
    assert (CHECKOUT / path).read_text("utf-8") == PAGES[path]


def test_the_table_has_every_annotation_with_its_argument_and_field() -> None:
    lines = annotations_table().splitlines()
    assert len(lines) == 2 + len(FIELDS)
    for line, field in zip(lines[2:], FIELDS, strict=True):
        assert line.startswith(f"| `{field.key}` | `{field.argument}` |")
        assert f"| `{field.profile}` |" in line or field.profile is None


def test_the_readme_keeps_what_is_around_the_table() -> None:
    text = "before\n<!-- annotations:begin -->\nold\n<!-- annotations:end -->\nafter\n"
    written = with_annotations(text)
    assert written == f"before\n<!-- annotations:begin -->\n{annotations_table()}<!-- annotations:end -->\nafter\n"
    assert with_annotations(written) == written


@pytest.mark.parametrize("text", ["", "<!-- annotations:begin -->", "<!-- annotations:end --><!-- annotations:begin -->"])
def test_a_readme_without_both_markers_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="lacks"):
        with_annotations(text)


def test_the_command_rewrites_what_differs_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / README).write_text("<!-- annotations:begin -->\n<!-- annotations:end -->\n")
    assert main([str(tmp_path)]) == 0
    assert set(capsys.readouterr().out.split()) == set(PAGES)
    assert (tmp_path / "docs/reference/crds.md").read_text("utf-8") == PAGES["docs/reference/crds.md"]
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_the_command_refuses_a_folder_that_is_no_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "is not a checkout" in capsys.readouterr().err
