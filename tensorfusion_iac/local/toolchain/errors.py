"""The one exception of this package: its text is what the user reads, and says what to do."""


class ToolError(Exception):
    """A program can't be had or put in its place. `str()` names it, the cause, and the way out."""
