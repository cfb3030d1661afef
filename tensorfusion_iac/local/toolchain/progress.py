"""Telling the user what goes on: a progress line for each tool, and a sign of life while a long step runs."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str], None]
"""Takes one line of text, without its newline."""

HEARTBEAT_S = 30.0


def to_stderr(line: str) -> None:
    """Write the line to standard error at once: standard output stays for results."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def duration(seconds: float) -> str:
    """Seconds as a person reads them: `4.2s`, `48s`, `6m12s`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


@contextmanager
def heartbeat(progress: Progress, describe: Callable[[], str], period_s: float = HEARTBEAT_S) -> Iterator[None]:
    """While the body runs, say `describe()` and the elapsed time every `period_s` seconds."""
    ended = threading.Event()
    start = time.monotonic()

    def beat() -> None:
        while not ended.wait(period_s):
            progress(f"      ... {describe()}, {duration(time.monotonic() - start)} so far")

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
