"""docs/concepts/admission.md says what admission does."""

from __future__ import annotations

from pathlib import Path

from tensorfusion_iac.admission import configuration, environment

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "admission.md").read_text()


def test_every_variable_is_documented() -> None:
    variables = [value for name, value in vars(environment).items() if name.isupper() and isinstance(value, str)]
    assert len(variables) > 10
    assert [name for name in variables if f"`{name}`" not in PAGE] == []


def test_every_namespace_that_is_left_alone_is_documented() -> None:
    assert [name for name in configuration.EXCLUDED_NAMESPACES if f"`{name}`" not in PAGE] == []
