"""`tensorfusion models`: the GPU catalogue, for the annotation `gpu-model` (SPEC §2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.output import Output, OutputOption, show, table

if TYPE_CHECKING:
    from tensorfusion_iac.api.catalogue import GpuModel

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_COLUMNS = ("MODEL", "VENDOR", "FAMILY", "FP16 TFLOPS", "VRAM", "$/H", "MIG", "ALSO CALLED", "SOURCE")


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="What `gpu-model` would say: a model, an alias or a family.")] = None,
    vendor: Annotated[str | None, typer.Option("--vendor", "-v", help="Only this vendor's models.")] = None,
    family: Annotated[str | None, typer.Option("--family", help="Only this family's models.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the GPU models that `gpu-model` can name.

    Any other name is allowed too: the pod then waits until a node has such a card.
    """
    from tensorfusion_iac.api.catalogue import catalogue, did_you_mean, find

    found: Iterable[GpuModel] = catalogue()
    if name is not None:
        found = find(name)
        if not found:
            hint = did_you_mean(name)
            raise Failure(f'no model, alias or family is called "{name}"{hint and f"; {hint}"}', Exit.PROBLEMS)
    if vendor is not None:
        wanted = _vendor(vendor)
        found = [model for model in found if model.vendor.value == wanted]
    if family is not None:
        families = {model.family.casefold() for model in catalogue()}
        if family.casefold() not in families:
            raise usage(f'--family: "{family}" is not a family of the catalogue; `tensorfusion models` lists them')
        found = [model for model in found if model.family.casefold() == family.casefold()]
    listed = list(found)
    show(output, [_record(model) for model in listed], table(_COLUMNS, map(_row, listed)))


def _vendor(text: str) -> str:
    from tensorfusion_iac.api.vendors import Vendor, parse_vendor

    vendor = parse_vendor(text)
    if vendor is None:
        raise usage(f'--vendor: "{text}" is not one of {", ".join(item.value for item in Vendor)}')
    return vendor.value


def _row(model: GpuModel) -> tuple[str, ...]:
    return (
        model.name,
        model.vendor.value,
        model.family,
        f"{model.fp16_tflops:f}",
        f"{model.nominal_vram_gib}Gi",
        "" if model.usd_per_hour is None else f"{model.usd_per_hour:.2f}",
        "yes" if model.mig else "",
        ", ".join(model.aliases),
        f"{model.source}. {model.note}" if model.note else model.source,
    )


def _record(model: GpuModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "vendor": model.vendor.value,
        "family": model.family,
        "fp16Tflops": f"{model.fp16_tflops:f}",
        "vramGiB": model.nominal_vram_gib,
        "usdPerHour": None if model.usd_per_hour is None else f"{model.usd_per_hour:f}",
        "aliases": list(model.aliases),
        "driverNames": list(model.driver_names),
        "migProfiles": [template.name for template in model.mig.templates] if model.mig else [],
        "source": model.source,
        "note": model.note,
    }
