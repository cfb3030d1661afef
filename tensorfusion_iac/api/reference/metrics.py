"""The page of metrics: one table for each program, from the rows of `api/metrics.py`."""

from __future__ import annotations

from tensorfusion_iac.api.metrics import Metric, Program, of
from tensorfusion_iac.api.reference.markdown import code, table

_HEAD = ("Metric", "Type", "Labels", "Unit", "Meaning")
_INTRODUCTION = """\
# Metrics

What each program tells Prometheus at `/metrics`. This page is written from `tensorfusion_iac/api/metrics.py`, from which the
programs make their metrics; do not edit it.

- A histogram is scraped as `_bucket`, `_sum` and `_count`. `*_created` is when a counter began.
- Each program also has the usual `process_*` metrics: memory, processor time, open files.
- Replicas of the controller all tell of pools, workloads and quotas: take the maximum over them, not the sum.
- A series that makes no sense is absent: an idle pod has no sample age, a card without figures no TFLOPS.
"""
_WHERE = {
    Program.WEBHOOK: "`tensorfusion serve webhook`, over HTTPS on its only port (9443).",
    Program.SCHEDULER: "`tensorfusion serve scheduler`, the extender beside kube-scheduler.",
    Program.CONTROLLER: "`tensorfusion serve controller` (port 9480).",
    Program.AGENT: "`tensorfusion serve agent` (port 9460), and `simulated-agents`.",
}


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    return "\n".join((_INTRODUCTION, *(_section(program) for program in Program)))


def _section(program: Program) -> str:
    return f"## {program.value.capitalize()}\n\n{_WHERE[program]}\n\n{table(_HEAD, map(_row, of(program)))}"


def _row(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(map(code, metric.labels)) or "-"
    return (code(metric.name), metric.type.value, labels, metric.unit or "-", metric.help)
