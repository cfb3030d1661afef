"""Why a node, or a whole namespace, cannot take a worker: short codes, and the words for each (SPEC §7).

The order is that in which a card is judged; a node's reason is the first at which it has too few cards left. The scheduler
answers the codes' words to kube-scheduler, which counts equal ones; `explain` adds the numbers.
"""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """One reason; 0 means that the node fits."""

    FITS = 0
    NO_GPUS = 1
    OTHER_POOL = 2
    NO_INJECTION = 3
    NO_AGENT = 4
    OTHER_VENDOR = 5
    OTHER_MODEL = 6
    OTHER_INDEX = 7
    IN_USE_BY_OTHERS = 8
    SICK = 9
    NO_PARTITIONS = 10
    NO_HARD_LIMIT = 11
    LIMIT_BELOW_REQUEST = 12
    TOO_SMALL = 13
    OTHER_ISOLATION = 14
    NOT_IDLE = 15
    NO_SLOT = 16
    COMPUTE = 17
    VRAM = 18
    QUOTA = 19
    NOMINATED = 20
    GANG = 21
    TOO_FEW_GPUS = 22  # judged with NO_GPUS; codes stay what they were


WORDS = {
    Reason.NO_GPUS: "no GPU known on the node",
    Reason.TOO_FEW_GPUS: "fewer GPUs on the node than are asked",
    Reason.OTHER_POOL: "node is not in the pool",
    Reason.NO_INJECTION: "no way to hand GPUs to containers on the node",
    Reason.NO_AGENT: "GPU agent of the node is not alive",
    Reason.OTHER_VENDOR: "GPUs are of another vendor",
    Reason.OTHER_MODEL: "GPU model does not match",
    Reason.OTHER_INDEX: "too few GPUs with the asked indices",
    Reason.IN_USE_BY_OTHERS: "GPUs are used by another system",
    Reason.SICK: "too few healthy GPUs",
    Reason.NO_PARTITIONS: "GPUs have no such hardware partitions",
    Reason.NO_HARD_LIMIT: "isolation hard cannot be enforced on the GPUs",
    Reason.LIMIT_BELOW_REQUEST: "compute limit is below the request on these GPUs",
    Reason.TOO_SMALL: "GPUs are smaller than what is asked of one",
    Reason.OTHER_ISOLATION: "GPUs serve another kind of isolation",
    Reason.NOT_IDLE: "too few idle GPUs",
    Reason.NO_SLOT: "no free slot for the hardware partition",
    Reason.COMPUTE: "not enough free GPU compute",
    Reason.VRAM: "not enough free GPU memory",
    Reason.QUOTA: "quota of the namespace is used up",
    Reason.NOMINATED: "GPUs are being freed for a pod of higher priority",
    Reason.GANG: "the other pods of the group cannot be placed yet",
}

PASSING = frozenset({
    Reason.OTHER_ISOLATION, Reason.NOT_IDLE, Reason.NO_SLOT, Reason.COMPUTE, Reason.VRAM,
})  # fmt: skip
"""What goes away when pods on the node end: for these, and no other reason, eviction can help."""
