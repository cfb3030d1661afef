"""The pods of an object of a file: `api.pod_templates`, for objects that know their lines."""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.api import pod_templates
from tensorfusion_iac.api.pod_templates import Template
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.yaml_text import plain

__all__ = ["Template", "pod_of", "template_of"]


def template_of(item: Object) -> Template | None:
    """The pods that the object describes, or None if it describes none."""
    return pod_templates.template_of(item.kind, item.name, item.raw)


def pod_of(item: Object, template: Template) -> Any:
    """The pod as its owner would create it, as plain values."""
    return pod_templates.pod_from(item.kind, item.name, item.namespace, plain(template.pod))
