"""`tensorfusion crds`: the CustomResourceDefinitions, generated from the models (SPEC §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorfusion_iac.cli.exits import usage
from tensorfusion_iac.cli.output import Manifest, ManifestOption, as_json, complain

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def crds(
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Write one file per definition into this folder instead.")
    ] = None,
    output: ManifestOption = Manifest.YAML,
) -> None:
    """Write the custom resource definitions as YAML.

    Apply them with: tensorfusion crds | kubectl apply --server-side -f -
    """
    from tensorfusion_iac.api.crd import crd_yaml, crds
    from tensorfusion_iac.cli.yaml_text import write

    definitions = crds()
    if folder is None:
        as_list = {"apiVersion": "v1", "kind": "List", "items": list(definitions)}
        typer.echo(as_json(as_list) if output is Manifest.JSON else crd_yaml(), nl=output is Manifest.JSON)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for definition in definitions:
            path = folder / f"{definition['metadata']['name']}.{output.value}"
            path.write_text(as_json(definition) + "\n" if output is Manifest.JSON else write([definition]))
            complain(f"wrote {path}")
    except OSError as error:
        raise usage(f"{error.filename}: {error.strerror}") from None
