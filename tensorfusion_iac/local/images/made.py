"""The images that real nodes have from the start: our programs, kube-scheduler, a virtual GPU job, and the pause of a pod.

Their names are those by which manifests ask for them: nothing has to be pulled, and a pod's `imagePullPolicy` is IfNotPresent.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tensorfusion_iac._version import __version__
from tensorfusion_iac.local.images import python_root
from tensorfusion_iac.local.images.oci import Image, Layer, write_archive, write_layer

PROGRAMS = f"docker.io/library/tensorfusion-iac:{__version__}"
"""Our programs, entry `tensorfusion`: what the Dockerfile makes. Manifests say `tensorfusion-iac:VERSION`."""

JOB = f"docker.io/library/virtual-gpu-job:{__version__}"
"""A job on the card that its container sees; beside it Python. Its arguments are those of job.c from CARD on."""

PAUSE = f"docker.io/library/virtual-gpu-pause:{__version__}"
SCHEDULER = "registry.k8s.io/kube-scheduler"

NONROOT = "65532:65532"
STATE_INSIDE = "/run/virtual-gpus/state"


def write_images(folder: Path, virtual_gpus: Path, scheduler: Path, scheduler_version: str, cache: Path) -> None:
    """Write an archive with all images into `folder`. `virtual_gpus`: the compiled programs; `cache` keeps the large layer."""
    folder.mkdir(parents=True, exist_ok=True)
    root = root_layer(cache)
    own = write_layer(folder / "own.layer", python_root.own_package())
    cards = write_layer(folder / "cards.layer", python_root.with_libraries({
        "usr/local/bin/virtual-gpu-job": virtual_gpus / "job", "pause": virtual_gpus / "pause",
    }))  # fmt: skip
    kube_scheduler = write_layer(
        folder / "scheduler.layer", python_root.with_libraries({"usr/local/bin/kube-scheduler": scheduler})
    )  # fmt: skip
    images = (
        Image(PROGRAMS, (root, own), ("tensorfusion",), user=NONROOT),
        Image(JOB, (root, cards), ("virtual-gpu-job", STATE_INSIDE), ("-", "1000", "0", "20", "1024", "1073741824")),
        Image(PAUSE, (cards,), ("/pause",)),
        Image(f"{SCHEDULER}:v{scheduler_version}", (kube_scheduler,), ("kube-scheduler",), user=NONROOT),
    )
    write_archive(images, folder / "images.tar")
    for layer in (own, cards, kube_scheduler):
        layer.path.unlink()


def root_layer(cache: Path) -> Layer:
    """Python and the packages that our programs need. It is kept in `cache` by what it is made of; only the last one is."""
    key = hashlib.sha256(python_root.root_key().encode()).hexdigest()[:16]
    path = cache / f"python-{key}.tar"
    if not path.is_file():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        unfinished = cache / "unfinished.tar"
        write_layer(unfinished, python_root.programs_root())
        unfinished.rename(path)
    return Layer.of(path)
