"""Which model of the catalogue a simulated node has: one model, named so that no other is meant."""

from __future__ import annotations

from tensorfusion_iac.api.catalogue import did_you_mean, find
from tensorfusion_iac.local.errors import WishError
from tensorfusion_iac.local.fleet import CardModel


def look_up(name: str) -> CardModel:
    """The card of that name. WishError for an unknown name, and for a family of several models."""
    found = find(name)
    if not found:
        hint = did_you_mean(name)
        raise WishError(f'unknown GPU model "{name}"{hint and f"; {hint}"} (`tensorfusion models` lists all)')
    if len(found) > 1:
        raise WishError(f'GPU model "{name}" is a family; give one of {", ".join(model.name for model in found)}')
    model = found[0]
    return CardModel(model.name, model.vendor.value, model.nominal_vram_bytes)
