"""How a command ends: four exit codes, and the failure that ends it early with one clear message (docs/cli.md)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes, the same for every command."""

    OK = 0
    PROBLEMS = 1  # the input was read and something is wrong with it
    USAGE = 2  # the command was called in a way that it can't follow
    ENVIRONMENT = 3  # something outside is missing: a tool, a package, a cluster


class Failure(Exception):  # noqa: N818 - the end of a command, which need not be an error of the program
    """Ends the command: the message goes to standard error, behind `error: `, and `code` is the exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        self.message, self.code = message, code
        super().__init__(message)


def usage(message: str) -> Failure:
    """A call that can't be followed."""
    return Failure(message, Exit.USAGE)


def environment(message: str) -> Failure:
    """Something missing outside; the message says what to do."""
    return Failure(message, Exit.ENVIRONMENT)
