"""What is wrong, for people: of what, what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `subject` names the object, `problem` is what was found, `remedy` what to do about it."""

    subject: str
    problem: str
    remedy: str
    node: str = ""

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {"subject": self.subject, "problem": self.problem, "remedy": self.remedy, "node": self.node or None}
