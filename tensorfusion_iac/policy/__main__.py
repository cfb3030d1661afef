"""Serves the policy pack to the engine; `pulumi preview --policy-pack` starts it."""

from functools import cache

from pulumi_policy import PolicyPack

from tensorfusion_iac.policy.pack import NAME, deployed_images, policies

PolicyPack(NAME, policies(cache(deployed_images)))
