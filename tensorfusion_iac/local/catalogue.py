from decimal import Decimal
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.fleet import CardModel

_T = {"A100_SXM_80G": (312, 80), "L40S": (362, 48)}


def look_up(name: str) -> CardModel:
    if name not in _T:
        raise LocalError(f"unknown GPU model {name}")
    t, v = _T[name]
    return CardModel(name, "NVIDIA", Decimal(t), v * 2**30)
