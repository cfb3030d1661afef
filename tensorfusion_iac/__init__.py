"""Declare fractional-GPU (vGPU) workloads in Python, preview what will change, and put them on Kubernetes with Pulumi.

The door is lazy: `tensorfusion_iac.api` costs neither pulumi's memory nor its start-up; the components load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorfusion_iac._version import __version__ as __version__

if TYPE_CHECKING:
    from tensorfusion_iac import api as api
    from tensorfusion_iac.components import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name == "api":
        return import_module("tensorfusion_iac.api")
    if name.startswith("_"):
        raise AttributeError(name)
    components = import_module("tensorfusion_iac.components")
    if name in components.__all__:
        return getattr(components, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "api", *import_module("tensorfusion_iac.components").__all__])
