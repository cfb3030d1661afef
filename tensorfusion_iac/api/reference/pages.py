"""Every generated file of the checkout, by its path: what `make docs` writes and what the tests compare."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.catalogue.render import render_models_markdown
from tensorfusion_iac.api.crd import crd_yaml
from tensorfusion_iac.api.reference.annotations import annotations_page, with_annotations
from tensorfusion_iac.api.reference.custom_resources import crds_page
from tensorfusion_iac.api.reference.metrics import metrics_page

README = "README.md"


def pages(readme: str) -> Mapping[str, str]:
    """The text of each generated file by its path in the checkout; `readme` is the README as it is now."""
    return {
        "docs/reference/annotations.md": annotations_page(),
        "docs/reference/crds.md": crds_page(),
        "docs/reference/gpu-models.md": render_models_markdown(),
        "docs/reference/metrics.md": metrics_page(),
        "tests/golden/crds.yaml": crd_yaml(),
        README: with_annotations(readme),
    }
