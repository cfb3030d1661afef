"""Which cron rule of a workload holds now, and the amounts that it sets (SPEC §8). Pure.

A rule holds from its start to its end: when the next end comes before the next start. Times are of a wall clock in the rule's
time zone, so a rule that starts at 9 starts at 9 in summer and in winter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.resources.autoscaling import CronScalingRule

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, Sequence[str]], ...] = (
    ("minute", 0, 59, ()), ("hour", 0, 23, ()), ("day of the month", 1, 31, ()), ("month", 1, 12, _MONTHS), ("day", 0, 7, _DAYS),
)  # fmt: skip
_SEARCHED_DAYS = 8 * 366  # a 29 February comes within 8 years


@dataclass(frozen=True, slots=True)
class Cron:
    """Five cron fields as sets. `any_day`, `any_weekday`: the field is `*`; else either of the two may match, as in cron."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def after(self, moment: datetime) -> datetime | None:
        """The first time after `moment` (both naive, of one wall clock); None if there is none."""
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        for _ in range(_SEARCHED_DAYS):
            if self._matches(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        found = day.replace(hour=hour, minute=minute)
                        if found > moment:
                            return found
            day += timedelta(days=1)
        return None

    def _matches(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


@dataclass(frozen=True, slots=True)
class Held:
    """The rule that holds now, and what is wrong with rules, in words."""

    rule: CronScalingRule | None
    problems: tuple[str, ...] = ()


def parse_cron(text: str) -> Cron:
    """Read five cron fields. Raises Fault."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise Fault(quote(text), "five cron fields such as 0 9 * * 1-5")
    minutes, hours, days, months, weekdays = (_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True))
    return Cron(
        tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months), frozenset(day % 7 for day in weekdays),
        parts[2].startswith("*"), parts[4].startswith("*"),
    )  # fmt: skip


def holding(rules: Iterable[CronScalingRule], now: datetime) -> Held:
    """The rule that holds at `now` (with a time zone). Of several the first; the others, and unreadable ones, are told."""
    found: list[CronScalingRule] = []
    problems = []
    for index, rule in enumerate(rules):
        if not rule.enable or not rule.start or not rule.end:
            continue
        name = rule.name or f"number {index + 1}"
        try:
            if is_active(rule, now):
                found.append(rule)
        except Fault as fault:
            problems.append(f"rule {name}: {fault}")
    if len(found) > 1:
        names = ", ".join(rule.name or "one without a name" for rule in found)
        problems.append(f"the rules {names} hold at the same time; the first of them counts")
    return Held(found[0] if found else None, tuple(problems))


def is_active(rule: CronScalingRule, now: datetime) -> bool:
    """Whether a rule with start and end holds at `now`. Raises Fault for what can't be read, or never comes."""
    start, end = parse_cron(rule.start), parse_cron(rule.end)
    wall = now.astimezone(_zone(rule.time_zone)).replace(tzinfo=None)
    starts, ends = start.after(wall), end.after(wall)
    if starts is None or ends is None:
        raise Fault(quote(rule.start if starts is None else rule.end), "a time that comes")
    return ends < starts


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Fault(quote(name), "an IANA time zone such as Europe/Berlin") from None


def _field(text: str, what: str, least: int, most: int, words: Sequence[str]) -> set[int]:
    return {value for part in text.split(",") for value in _part(part, what, least, most, words)}


def _part(text: str, what: str, least: int, most: int, words: Sequence[str]) -> Iterator[int]:
    span, _, step = text.partition("/")
    first, _, last = span.partition("-")
    try:
        if span == "*":
            low, high = least, most
        else:
            low = _number(first, least, words)
            high = _number(last, least, words) if last else (most if step else low)
        width = int(step) if step else 1
    except ValueError:
        raise Fault(quote(text), f"{what}: numbers from {least} to {most}") from None
    if not (least <= low <= high <= most and width > 0):
        raise Fault(quote(text), f"{what}: numbers from {least} to {most}, the lower one first")
    yield from range(low, high + 1, width)


def _number(text: str, least: int, words: Sequence[str]) -> int:
    word = text.casefold()
    return words.index(word) + least if word in words else int(text)
