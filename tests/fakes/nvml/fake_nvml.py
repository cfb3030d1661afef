"""The simulated cards under the name by which the tests know them; they are a part of the embedded control plane."""

from tensorfusion_iac.local.virtual_gpus.build import *  # noqa: F403
from tensorfusion_iac.local.virtual_gpus.cards import *  # noqa: F403
from tensorfusion_iac.local.virtual_gpus.state import *  # noqa: F403
