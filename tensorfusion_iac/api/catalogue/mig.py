"""How NVIDIA cards can be cut into MIG instances: profiles, counts and placements per card (SPEC §6 `partitioned`).

Profile names and counts are those of the NVIDIA Multi-Instance GPU User Guide and of NVIDIA's mig-parted configuration;
placements are what `nvidia-smi mig -lgipp` prints. For planning; on a running node the driver's answer counts.
"""

from __future__ import annotations

from tensorfusion_iac.api.catalogue.model import MigGeometry, MigTemplate

GUIDE = "NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles"
PARTED = "NVIDIA/mig-parted, deployments/systemd/config-default.yaml"


def _seven_slices(single: int, double: int, half: int, whole: int, source: str) -> MigGeometry:
    """Cut a card of seven compute slices and eight memory slots, given the GiB of one, two, four and eight slots."""
    return MigGeometry(7, 8, (
        MigTemplate(f"1g.{single}gb", single, 1, 7, (0, 1, 2, 3, 4, 5, 6), 1),
        MigTemplate(f"1g.{single}gb+me", single, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
        MigTemplate(f"1g.{double}gb", double, 1, 4, (0, 2, 4, 6), 2),
        MigTemplate(f"2g.{double}gb", double, 2, 3, (0, 2, 4), 2),
        MigTemplate(f"3g.{half}gb", half, 3, 2, (0, 4), 4),
        MigTemplate(f"4g.{half}gb", half, 4, 1, (0,), 4),
        MigTemplate(f"7g.{whole}gb", whole, 7, 1, (0,), 8),
    ), source)  # fmt: skip


A100_40G = _seven_slices(5, 10, 20, 40, GUIDE)
GH100_80G = _seven_slices(10, 20, 40, 80, GUIDE)  # the A100 80 GB has the same profiles
GH100_94G = _seven_slices(12, 24, 47, 94, GUIDE)
GH100_96G = _seven_slices(12, 24, 48, 96, GUIDE)
H200 = _seven_slices(18, 35, 71, 141, GUIDE)
GH200_144G = _seven_slices(18, 36, 72, 144, PARTED)
B200 = _seven_slices(23, 45, 90, 180, GUIDE)
GB200 = _seven_slices(23, 47, 93, 186, PARTED)
B300 = _seven_slices(34, 67, 135, 269, PARTED)
GB300 = _seven_slices(35, 70, 139, 278, PARTED)

A30 = MigGeometry(4, 4, (
    MigTemplate("1g.6gb", 6, 1, 4, (0, 1, 2, 3), 1),
    MigTemplate("1g.6gb+me", 6, 1, 1, (0, 1, 2, 3), 1),
    MigTemplate("2g.12gb", 12, 2, 2, (0, 2), 2),
    MigTemplate("2g.12gb+me", 12, 2, 1, (0, 2), 2),
    MigTemplate("4g.24gb", 24, 4, 1, (0,), 4),
), GUIDE)  # fmt: skip

_QUARTERS, _HALVES = (0, 3, 6, 9), (0, 6)
RTX_PRO_6000 = MigGeometry(4, 12, (
    MigTemplate("1g.24gb", 24, 1, 4, _QUARTERS, 3),
    MigTemplate("1g.24gb+me", 24, 1, 1, _QUARTERS, 3),
    MigTemplate("1g.24gb+gfx", 24, 1, 4, _QUARTERS, 3),
    MigTemplate("1g.24gb+me.all", 24, 1, 1, _QUARTERS, 3),
    MigTemplate("1g.24gb-me", 24, 1, 4, _QUARTERS, 3),
    MigTemplate("2g.48gb", 48, 2, 2, _HALVES, 6),
    MigTemplate("2g.48gb+gfx", 48, 2, 2, _HALVES, 6),
    MigTemplate("2g.48gb+me.all", 48, 2, 1, _HALVES, 6),
    MigTemplate("2g.48gb-me", 48, 2, 2, _HALVES, 6),
    MigTemplate("4g.96gb", 96, 4, 1, (0,), 12),
    MigTemplate("4g.96gb+gfx", 96, 4, 1, (0,), 12),
), GUIDE)  # fmt: skip
