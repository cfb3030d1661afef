"""The reference page of GPU models, written from the catalogue, so that it cannot say anything else (docs/reference).

`python -m tensorfusion_iac.api.catalogue.render > docs/reference/gpu-models.md` writes it; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from tensorfusion_iac.api.catalogue.lookup import catalogue
from tensorfusion_iac.api.catalogue.model import GpuModel, MigGeometry
from tensorfusion_iac.api.vendors import DEVICES, Vendor, VisibleDevices

_INTRODUCTION = """\
# GPU models

What `tensor-fusion.ai/gpu-model` can name, and the figures that plans are made with. This page is written from
`tensorfusion_iac/api/catalogue`; do not edit it.

- A value means every model whose name, alias, driver name or family it is, in any case: `A100` is any A100,
  `l40s` is L40S and never L40. A model that is not listed is allowed and means cards of exactly that name.
- TFLOPS are dense FP16 on the matrix units unless the note says otherwise. Prices are US dollars an hour for a device.
- Memory is nominal, as sold. On a running node the driver's figure is used, which is a little less.
- A device is what its driver lists: one chip of a card with several, if they are listed apart.
"""

_MIG = """\
## MIG profiles

For `tensor-fusion.ai/partition-template` with `isolation: partitioned`. An instance takes `size` memory slots, from one
of the starts. Without a template the plain profile of least waste is taken; those with a suffix (`+me`, `-me`, `+gfx`)
only if they are named. Memory is the number in the name; the driver's own is a little less.
"""

_VENDORS = """\
## Vendors

For `tensor-fusion.ai/vendor`. The first variable is the one that we set; the container runtime reads it if the table
says `runtime`, and only a library in the process if it says `library`. Requests of the native resources become
`gpu-count`.
"""


def render_models_markdown() -> str:
    """The whole page, with a newline at its end."""
    sections = [_INTRODUCTION]
    for vendor in Vendor:
        models = [model for model in catalogue() if model.vendor is vendor]
        sections.append(f"## {vendor}\n\n{_table(_MODEL_HEAD, map(_model_row, models))}")
    sections.append(f"{_MIG}\n" + "\n".join(_mig_sections()))
    sections.append(f"{_VENDORS}\n{_table(_VENDOR_HEAD, map(_vendor_row, Vendor))}")
    return "\n".join(sections)


_MODEL_HEAD = ("Model", "Family", "FP16 TFLOPS", "Memory GiB", "$/h", "Also called", "Source and note")
_MIG_HEAD = ("Profile", "Memory GiB", "Compute", "At most", "Starts", "Size")
_VENDOR_HEAD = ("Vendor", "Variables", "Native resources", "Sources")


def _model_row(model: GpuModel) -> Sequence[str]:
    price = "" if model.usd_per_hour is None else f"{model.usd_per_hour:.2f}"
    also = ", ".join((*model.aliases, *model.driver_names))
    origin = f"{model.source}. {model.note}" if model.note else model.source
    return (model.name, model.family, f"{model.fp16_tflops:f}", str(model.nominal_vram_gib), price, also, origin)


def _mig_sections() -> Iterator[str]:
    """One table for each geometry, under the names of all models that have it."""
    names: dict[MigGeometry, list[str]] = {}
    for model in catalogue():
        if model.mig is not None:
            names.setdefault(model.mig, []).append(model.name)
    for geometry, models in names.items():
        rows = (
            (
                template.name,
                str(template.memory_gib),
                f"{template.compute_slices}/{geometry.compute_slices}",
                str(template.max_instances),
                ", ".join(map(str, template.starts)),
                str(template.size),
            )
            for template in geometry.templates
        )
        title = f"### {', '.join(models)}\n\n{geometry.memory_slots} memory slots. Source: {geometry.source}.\n"
        yield f"{title}\n{_table(_MIG_HEAD, rows)}"


def _vendor_row(vendor: Vendor) -> Sequence[str]:
    row = DEVICES[vendor]
    variables = "<br>".join(map(_variable, row.visible))
    resources = "<br>".join(f"`{name}`" for name in row.resources)
    sources = "<br>".join((*(item.source for item in row.visible), row.resource_source))
    return (vendor.value, variables, resources, sources)


def _variable(item: VisibleDevices) -> str:
    return f"`{item.variable}` ({item.reader}, {item.form})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(render_models_markdown())
