"""What is answered instead of what was asked for, each fact with its status.

HttpError
|-- InvalidRequest     400   the bytes are not HTTP as we speak it
|-- UnknownPath        404
|-- MethodNotAllowed   405   carries what is allowed
|-- RequestTimeout     408
|-- BodyTooLarge       413
|-- HeadTooLarge       431
|-- InternalError      500   a bug of ours
`-- UnsupportedVersion 505
"""

from __future__ import annotations

from collections.abc import Sequence


class HttpError(Exception):
    """An answer that is an error."""

    status = 500
    code = "internal_error"

    def headers(self) -> list[tuple[str, str]]:
        """What the status obliges us to say beside the body."""
        return []


class InvalidRequest(HttpError):
    """Not a request that can be understood."""

    status = 400
    code = "invalid_request"


class UnknownPath(HttpError):
    """Nothing is here."""

    status = 404
    code = "unknown_path"


class MethodNotAllowed(HttpError):
    """The path exists, for other methods."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed here")
        self.allowed = tuple(allowed)

    def headers(self) -> list[tuple[str, str]]:
        """RFC 9110, 15.5.6: Allow must be sent."""
        return [("allow", ", ".join(self.allowed))]


class RequestTimeout(HttpError):
    """The rest of the request did not come in time."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(HttpError):
    """More content than `http.body_bytes_max`."""

    status = 413
    code = "body_too_large"


class HeadTooLarge(HttpError):
    """Request line and headers are longer than `http.head_bytes_max`."""

    status = 431
    code = "head_too_large"


class InternalError(HttpError):
    """A bug of ours; the log has the rest."""


class UnsupportedVersion(HttpError):
    """Neither HTTP/1.1 nor HTTP/1.0."""

    status = 505
    code = "unsupported_version"
