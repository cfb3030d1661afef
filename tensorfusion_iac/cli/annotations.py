"""`tensorfusion annotations`: the table of the user's annotations, as the parser has it (SPEC §2)."""

from __future__ import annotations

import typer

from tensorfusion_iac.cli.output import Output, OutputOption, show, table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def list_annotations(output: OutputOption = Output.TEXT) -> None:
    """List the annotations, their values and their Python arguments."""
    from tensorfusion_iac.api.fields import FIELDS
    from tensorfusion_iac.api.names import key

    records = [
        {
            "annotation": key(field.key),
            "argument": field.argument,
            "takes": field.takes,
            "default": field.default,
            "rule": field.rule,
            "profile": field.profile or "",
        }
        for field in FIELDS
    ]
    show(output, records, table(("ANNOTATION", "ARGUMENT", "TAKES", "DEFAULT", "RULE", "PROFILE"), _rows(records)))


def _rows(records: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return [tuple(record.values()) for record in records]
