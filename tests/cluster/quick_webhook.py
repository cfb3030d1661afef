"""`tensorfusion serve webhook` that needs less time to stop, for tests that start many: run as a program.

Arguments: kubeconfig, identity, seconds for which it serves on after it was told to stop, port (0: a free one).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from tensorfusion_iac.admission.program import Settings, run
from tensorfusion_iac.kube.client import Client


async def main(kubeconfig: Path, identity: str, drain_s: float, port: int) -> None:
    settings = Settings("127.0.0.1", port, hosts=("127.0.0.1",), identity=identity, drain_s=drain_s)
    await run(await Client.from_kubeconfig(kubeconfig), settings, lambda port: print(f"ready on port {port}", file=sys.stderr))  # noqa: T201


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
