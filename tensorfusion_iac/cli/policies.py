"""`tensorfusion policies`: the rules of the policy pack, their settings, and where the pack is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tensorfusion_iac.cli.output import Output, OutputOption, show, table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def policies(
    path: Annotated[bool, typer.Option("--path", help="Only the pack's folder, for `--policy-pack`.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the rules of the policy pack and their settings.

    Run them with: pulumi preview --policy-pack "$(tensorfusion policies --path)" --policy-pack-config policies.json
    """
    import tensorfusion_iac.policy as pack
    from tensorfusion_iac.policy.rules import OBJECT_RULES, WORKLOAD_RULES

    if path:
        typer.echo(str(Path(pack.__file__).parent))
        return
    rules = (*OBJECT_RULES, *WORKLOAD_RULES)
    record = {rule.name: {"description": rule.description, "settings": rule.settings} for rule in rules}
    rows = [(rule.name, rule.description, "; ".join(map(_setting, rule.settings.items()))) for rule in rules]
    show(output, record, table(("RULE", "WHAT IT ASKS FOR", "SETTINGS"), rows))


def _setting(entry: tuple[str, object]) -> str:
    name, schema = entry
    default = schema.get("default") if isinstance(schema, dict) else None
    return f"{name} (not set: says nothing)" if default is None else f"{name} (default {json.dumps(default)})"
