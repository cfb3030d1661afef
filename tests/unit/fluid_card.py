"""A fluid model of one card and its jobs under the duty controller, without processes: milliseconds in a loop.

A job queues `speed` seconds of work for each second that it runs, at most `queue_most_s`, and waits for its queue after each
`sync_s` of work. The card does what is queued, in equal parts. Its samples come each 1/6 s, rounded to whole percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorfusion_iac.planning import duty as duties
from tensorfusion_iac.planning.duty import Duty

TICK_S, WINDOW_S, CONTROL_S = 0.001, 1 / 6, 0.5
NOTHING_S = 1e-9


@dataclass
class Job:
    """One container with a hungry process in it."""

    target: float
    longest_freeze_s: float
    speed: float = 20.0
    sync_s: float = 0.02
    queue_most_s: float = 1.0
    state: Duty = field(default_factory=Duty)
    queued_s: float = 0.0
    done_s: float = 0.0
    waiting: bool = False
    since_sync_s: float = 0.0
    window_s: float = 0.0
    measured_s: float = 0.0
    ran_s: float = 0.0
    clock_s: float = 0.0
    use_by_second: list[float] = field(default_factory=list)

    def tick(self) -> None:
        pulse = duties.pulse(self.state.duty, self.longest_freeze_s)
        self.clock_s += TICK_S
        if self.clock_s >= pulse.running_s + pulse.frozen_s:
            self.clock_s = 0.0
        if self.clock_s > pulse.running_s:
            return
        self.ran_s += TICK_S
        if self.waiting and self.queued_s <= NOTHING_S:
            self.waiting, self.since_sync_s = False, 0.0
        if not self.waiting:
            more = min(self.speed * TICK_S, self.sync_s - self.since_sync_s) if self.sync_s else self.speed * TICK_S
            more = min(more, self.queue_most_s - self.queued_s)
            self.queued_s += more
            self.since_sync_s += more
            self.waiting = bool(self.sync_s) and self.since_sync_s >= self.sync_s - 1e-9


def run(jobs: Sequence[Job], seconds: float) -> None:
    """Let them run, and note the use of each whole second."""
    window_s = control_s = second_s = 0.0
    noted = [0.0] * len(jobs)
    for _ in range(round(seconds / TICK_S)):
        for job in jobs:
            job.tick()
        left_s = TICK_S
        while left_s > NOTHING_S and (hungry := [job for job in jobs if job.queued_s > NOTHING_S]):
            part = min(left_s / len(hungry), min(job.queued_s for job in hungry))
            for job in hungry:
                job.queued_s -= part
                job.done_s += part
                job.window_s += part
            left_s -= part * len(hungry)
        window_s, control_s, second_s = window_s + TICK_S, control_s + TICK_S, second_s + TICK_S
        if window_s >= WINDOW_S:
            for job in jobs:
                job.measured_s += round(job.window_s / window_s * 100) / 100 * window_s
                job.window_s = 0.0
            window_s = 0.0
        if control_s >= CONTROL_S:
            for job in jobs:
                job.state = duties.step(
                    job.state, target=job.target, use=job.measured_s / control_s, ran=job.ran_s / control_s,
                    elapsed_s=control_s, longest_freeze_s=job.longest_freeze_s,
                )  # fmt: skip
                job.measured_s = job.ran_s = 0.0
            control_s = 0.0
        if second_s >= 1.0:
            for at, job in enumerate(jobs):
                job.use_by_second.append(job.done_s - noted[at])
                noted[at] = job.done_s
            second_s = 0.0
