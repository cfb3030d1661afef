"""The CustomResourceDefinitions of `tensor-fusion.ai/v1`, generated from the models in `api/resources` (SPEC §4)."""

from tensorfusion_iac.api.crd.manifest import crd_yaml, crds

__all__ = ["crd_yaml", "crds"]
