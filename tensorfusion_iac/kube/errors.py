"""What can go wrong with a call to the API server, as exceptions whose text can be shown to a user as it is."""

from __future__ import annotations

from http import HTTPStatus


class KubeError(Exception):
    """Base of the errors below; `str()` is one line."""


class ApiError(KubeError):
    """The server answered with a failure: the HTTP status, and the reason and message of its `Status` object.

    In a watch, `status` 410 (reason `Expired`) means: list again.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status, self.reason, self.message = status, reason, message
        super().__init__(f"{message} ({status} {reason})")

    @property
    def not_found(self) -> bool:
        """There is no such object, or no such kind of object."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def already_exists(self) -> bool:
        """A create met an object of that name."""
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """A write was based on an old resourceVersion, or an apply met another writer's field."""
        return self.reason == "Conflict"

    @property
    def gone(self) -> bool:
        """The resourceVersion is too old: list again."""
        return self.status == HTTPStatus.GONE


class ApiUnreachable(KubeError):  # noqa: N818 - says what is the matter
    """No answer came: refused, timed out, cut off, or the TLS handshake failed."""

    def __init__(self, server: str, cause: BaseException) -> None:
        self.server = server
        super().__init__(f"cannot reach the Kubernetes API at {server}: {cause or type(cause).__name__}")


class ApiUnreadable(KubeError):  # noqa: N818 - says what is the matter
    """An answer came that is not what the API promises: cut JSON, or an object without what every object has."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the answer of the Kubernetes API cannot be read: {what}")


class CredentialsError(KubeError):
    """A kubeconfig or a service account cannot be used as it is; the text names the file and the field."""
