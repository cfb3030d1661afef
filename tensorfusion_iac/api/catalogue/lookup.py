"""Which models a name means: a model, an alias, a driver's product name or a family, in any case (SPEC §2).

Never by prefix: `A100` means A100_SXM_80G and A100_PCIe_40G, `L40s` means L40S and not L40. The scheduler asks
`matches` for each card, validation `find` and `nearest`, the agent `by_driver_name`. An unlisted model equals itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from types import MappingProxyType

from tensorfusion_iac.api.catalogue.model import GpuModel, MigTemplate
from tensorfusion_iac.api.vendors import Vendor

_PROFILE = re.compile(r"(?:mig[- ])?([0-9]+)g[.-]([0-9]+)gb(.*)", re.IGNORECASE)
_MOST_LOOKED_AT, _MOST_TYPING_ERRORS, _MOST_NEAREST = 10, 2, 4


@cache
def catalogue() -> tuple[GpuModel, ...]:
    """Every model that is known, by vendor, older ones first."""
    # Loaded at first use: most programs that import the contract never ask for a model.
    from tensorfusion_iac.api.catalogue import amd_intel, china, cloud_asics, nvidia, nvidia_rtx

    return (*nvidia.MODELS, *nvidia_rtx.MODELS, *amd_intel.MODELS, *china.MODELS, *cloud_asics.MODELS)


def find(name: str) -> tuple[GpuModel, ...]:
    """All models that a `gpu-model` value means, in the catalogue's order; empty if it is not known."""
    return _by_any_name().get(_folded(name), ())


def matches(wanted: str, model_name: str) -> bool:
    """Tell whether a card called `model_name`, by the catalogue or by its driver, is what `gpu-model` asks for."""
    card = _by_own_name().get(_folded(model_name))
    if card is None:
        return _folded(wanted) == _folded(model_name)
    return card in find(wanted)


def nearest(name: str) -> tuple[str, ...]:
    """The models, aliases and families spelled most like an unknown name, the likest first; empty if none is close.

    All that are as few typing errors away as the nearest: `L40X` may be L40 and L40S.
    """
    folded, spelled = _folded(name), _spellings()
    close = get_close_matches(folded, spelled, n=_MOST_LOOKED_AT, cutoff=0.6)
    errors = {other: _typing_errors(folded, other) for other in close}
    fewest = min(errors.values(), default=0)
    near = [other for other in close if errors[other] == fewest] if fewest <= _MOST_TYPING_ERRORS else close[:1]
    each_once = {find(other): spelled[other] for other in reversed(near)}  # names of one model are one answer
    return tuple(reversed(each_once.values()))[:_MOST_NEAREST]


def did_you_mean(name: str) -> str:
    """A question about an unknown name: `did you mean L40 or L40S?`; empty if nothing is close."""
    *others, last = nearest(name) or ("",)
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def by_driver_name(name: str) -> GpuModel | None:
    """The model of a card by its driver's product name; older drivers leave out the "NVIDIA" in front."""
    return _by_driver_name().get(_product(name))


def model_of(card: str) -> GpuModel | None:
    """The model of a card by what its `GPU` object calls it: a name or alias of the catalogue, or its driver's."""
    return _by_own_name().get(_folded(card)) or by_driver_name(card)


def vendor_of(name: str) -> Vendor | None:
    """Whose card a `gpu-model` value means; None if it is not known."""
    found = find(name)
    return found[0].vendor if found else None


def mig_template(model: GpuModel, profile: str) -> MigTemplate | None:
    """A card's MIG template by profile name; `MIG 1g.10gb`, `mig-1g.10gb` and `mig-1g-10gb` mean `1g.10gb` too."""
    wanted = profile_name(profile)
    templates = model.mig.templates if model.mig else ()
    return next((template for template in templates if template.name == wanted), None)


def profile_name(text: str) -> str | None:
    """Spell a MIG profile as NVIDIA does: `1g.10gb+me`, a resource's `mig-1g.10gb.me`. None if it is no profile."""
    match = _PROFILE.fullmatch(text)
    if match is None:
        return None
    slices, gigabytes, variant = match.groups()
    if variant.startswith("."):
        variant = "+" + variant[1:]
    return f"{slices}g.{gigabytes}gb{variant.casefold()}"


def _folded(name: str) -> str:
    return name.casefold()


def _typing_errors(text: str, other: str) -> int:
    """How many characters differ, are missing or too many."""
    steps = SequenceMatcher(None, text, other, autojunk=False).get_opcodes()
    return sum(max(end - start, other_end - other_start) for tag, start, end, other_start, other_end in steps if tag != "equal")


def _product(name: str) -> str:
    return " ".join(name.split()).casefold().removeprefix("nvidia ")


def _own_names(model: GpuModel) -> tuple[str, ...]:
    return (model.name, *model.aliases, *model.driver_names)


@cache
def _by_own_name() -> Mapping[str, GpuModel]:
    return MappingProxyType({_folded(name): model for model in catalogue() for name in _own_names(model)})


@cache
def _by_driver_name() -> Mapping[str, GpuModel]:
    return MappingProxyType({_product(name): model for model in catalogue() for name in model.driver_names})


@cache
def _by_any_name() -> Mapping[str, tuple[GpuModel, ...]]:
    found: dict[str, tuple[GpuModel, ...]] = {}
    for model in catalogue():
        for key in {_folded(name) for name in (*_own_names(model), model.family)}:
            found[key] = (*found.get(key, ()), model)
    return MappingProxyType(found)


@cache
def _spellings() -> Mapping[str, str]:
    """Every name a user would write, in lower case, and its proper spelling."""
    names = (name for model in catalogue() for name in (*model.aliases, model.family, model.name))
    return MappingProxyType({_folded(name): name for name in names})
