"""The reference pages, written from the models and tables that the programs run on: nothing in them is kept by hand.

`python -m tensorfusion_iac.api.reference` (or `make docs`) rewrites them in the checkout; tests compare.
"""

from tensorfusion_iac.api.reference.annotations import annotations_page, annotations_table, with_annotations
from tensorfusion_iac.api.reference.custom_resources import crds_page
from tensorfusion_iac.api.reference.pages import README, pages

__all__ = ["README", "annotations_page", "annotations_table", "crds_page", "pages", "with_annotations"]
