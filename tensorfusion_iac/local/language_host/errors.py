"""The one exception of the host: its text goes to the user through the pulumi command."""


class HostError(Exception):
    """A program or plugin can't be run as its Pulumi.yaml asks; `str()` says why and what to do."""
