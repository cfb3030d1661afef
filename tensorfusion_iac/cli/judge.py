"""The verdict on each object of the given files: problems, which refuse it, and warnings, which don't (SPEC §2, §3).

Pod templates are judged by `api.resolve`, our resources by `api.check`; every other object is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.annotations import annotation_naming
from tensorfusion_iac.api.names import ENABLED_LABEL, PREFIX
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.resources import GPUResourceQuota
from tensorfusion_iac.cli import misplaced
from tensorfusion_iac.cli.given import Given
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.output import one_line
from tensorfusion_iac.cli.own_resources import check, is_ours
from tensorfusion_iac.cli.pod_templates import Template, template_of

_KEYED = re.compile(r"metadata\.(labels|annotations)\.(.+)", re.DOTALL)
_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or warning of an object, and its line in the file (0: not known)."""

    line: int
    problem: Problem

    def text(self) -> str:
        """As one line: the place, the field, what is wrong."""
        where = f"line {self.line}: " if self.line else ""
        return where + one_line(self.problem.text(annotation_naming))

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {"line": self.line or None, **self.problem.record(annotation_naming)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """An object, and what was found. `ours` is whether it is anything that we judge."""

    item: Object
    ours: bool
    problems: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def texts(self) -> Iterator[str]:
        """For people: a head line and a line for each finding, the problems first; nothing if all is well."""
        for word, findings in (("problem", self.problems), ("warning", self.warnings)):
            if findings:
                count = f"{len(findings)} {word}{'s' if len(findings) > 1 else ''}"
                head = f"{self.item.file}:{self.item.line}: {self.item.subject}: {count}"
                yield "\n".join([head, *(f"  {finding.text()}" for finding in findings)])

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        item = self.item
        return {
            "file": item.file,
            "line": item.line,
            "apiVersion": item.api_version,
            "kind": item.kind,
            "namespace": item.namespace,
            "name": item.name,
            "problems": [finding.record() for finding in self.problems],
            "warnings": [finding.record() for finding in self.warnings],
        }


def judge(objects: Sequence[Object]) -> list[Verdict]:
    """A verdict on each object, all of them knowing of each other."""
    checked = [(item, check(item)) for item in objects]
    given = Given.of((item, found.model) for item, found in checked)
    twice = _twice(objects)
    verdicts = []
    for item, found in checked:
        template = None if is_ours(item) else template_of(item)
        problems, warnings = [*found.problems], [*found.warnings]
        if template is not None:
            problems, warnings = _judge_pods(item, template, given)
        warnings += twice.get(id(item), ())
        verdicts.append(
            Verdict(
                item,
                template is not None or is_ours(item),
                _findings(item, template, problems),
                _findings(item, template, warnings),
            )
        )
    return verdicts


def _findings(item: Object, template: Template | None, problems: Iterable[Problem]) -> tuple[Finding, ...]:
    """Each once, in the file's order."""
    found = [Finding(_line(item, template, problem.field), problem) for problem in dict.fromkeys(problems)]
    return tuple(sorted(found, key=lambda finding: finding.line))


def _judge_pods(item: Object, template: Template, given: Given) -> tuple[list[Problem], list[Problem]]:
    found = given.judge(template, item.namespace)
    problems, warnings = [*found.problems], [*found.warnings]
    if found.enabled:
        warnings += misplaced.unseen_warnings(item.namespace)
    else:
        problems += misplaced.off_problems(template.pod)
        warnings += misplaced.off_warnings(template.pod)
    warnings += misplaced.outer_warnings(item.raw, template.path)
    return problems, warnings


def _twice(objects: Sequence[Object]) -> dict[int, list[Problem]]:
    """Warnings, by the identity of the object: one that stands twice, and a namespace's second quota, which doesn't hold."""
    seen: dict[tuple[str, str, str, str], Object] = {}
    quotas: dict[str, Object] = {}
    found: dict[int, list[Problem]] = {}
    for item in objects:
        same = seen.setdefault((item.group, item.kind, item.namespace, item.name), item)
        if same is not item and item.name:
            message = "{found} stands at {accepted} already; the last one applied will hold"
            found.setdefault(id(item), []).append(Problem("metadata.name", item.subject, f"{same.file}:{same.line}", message))
        elif item.kind == GPUResourceQuota.KIND.kind and is_ours(item):
            first = quotas.setdefault(item.namespace, item)
            if first is not item:
                message = "{found}; the oldest holds, here taken to be {accepted}"
                where = f"{first.name} ({first.file}:{first.line})"
                found.setdefault(id(item), []).append(Problem("metadata.name", "a second quota in its namespace", where, message))
    return found


def _line(item: Object, template: Template | None, field: str) -> int:
    """The line of a problem's field in the object's file."""
    inside = template.path if template is not None else ()
    key = annotation_naming(field)
    if key.startswith(PREFIX):
        return item.line_of((*inside, "metadata", "annotations", key))
    if field == misplaced.LABEL:
        return item.line_of((*inside, "metadata", "labels", ENABLED_LABEL))
    steps = _steps(field)
    return max(item.line_of(steps), item.line_of((*inside, *steps)))


def _steps(field: str) -> tuple[str | int, ...]:
    """A path as its members; the keys of labels and annotations have dots of their own."""
    keyed = _KEYED.fullmatch(field)
    if keyed:
        return ("metadata", *keyed.groups())
    return tuple(int(step) if step.isascii() and step.isdigit() else step for step in _STEP.findall(field))
