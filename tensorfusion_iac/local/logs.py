"""The ends of the logs of a control plane's processes, and what is added to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout

FOLLOW_PERIOD_S = 0.3


def select(layout: Layout, process: str | None) -> list[Path]:
    """The logs to show. LocalError if there is none, naming those that there are."""
    there = sorted(layout.logs.glob("*.log")) if layout.logs.is_dir() else []
    chosen = [path for path in there if process in (None, path.stem)]
    if chosen:
        return chosen
    if not there:
        raise LocalError(f"there are no logs in {layout.logs}")
    raise LocalError(f'no log of "{process}"; there are: {", ".join(path.stem for path in there)}')


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log; bytes that are no text are shown as such."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from None


def follow(paths: Sequence[Path], wait: Callable[[float], None]) -> Iterator[tuple[Path, str]]:
    """Each line written from now on, with its log, for ever; a log that was begun anew is read from its start."""
    read = {path: path.stat().st_size for path in paths}
    while True:
        for path in paths:
            size = path.stat().st_size if path.exists() else 0
            if size < read[path]:
                read[path] = 0
            if size > read[path]:
                with path.open("rb") as file:
                    file.seek(read[path])
                    text = file.read()
                whole = text[: text.rfind(b"\n") + 1]
                read[path] += len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    yield path, line
        wait(FOLLOW_PERIOD_S)
