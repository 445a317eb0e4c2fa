"""What is answered instead of what was asked for, in the words of RabbitMQ's management API.

ManagementError
|-- BadRequest 400          |-- NotAuthorised 401
|-- Forbidden 401, too: RabbitMQ says not_authorized to who is known and may not
|-- NotFound, Missing 404   |-- MethodNotAllowed 405
|-- PreconditionFailed 412  `-- Unavailable 503
"""

from __future__ import annotations


class ManagementError(Exception):
    """The request failed."""

    status = 500
    error = "internal_server_error"

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What the status obliges us to say."""
        return ()


class BadRequest(ManagementError):
    """What was said cannot be."""

    status = 400
    error = "bad_request"


class NotAuthorised(ManagementError):
    """Nobody we know."""

    status = 401
    error = "not_authorised"

    def headers(self) -> tuple[tuple[str, str], ...]:
        """RFC 9110, 15.5.2."""
        return (("www-authenticate", 'Basic realm="RabbitMQ Management"'),)


class Forbidden(ManagementError):
    """Somebody who may not."""

    status = 401
    error = "not_authorised"


class NotFound(ManagementError):
    """Nothing is here. Clients compare these words."""

    status = 404
    error = "Object Not Found"

    def __init__(self) -> None:
        super().__init__("Not Found")


class Missing(ManagementError):
    """What a change needs is not here."""

    status = 404
    error = "not_found"


class MethodNotAllowed(ManagementError):
    """The path exists, for other methods."""

    status = 405
    error = "Method Not Allowed"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__("Method Not Allowed")
        self._allowed = allowed

    def headers(self) -> tuple[tuple[str, str], ...]:
        """RFC 9110, 15.5.6."""
        return (("allow", ", ".join(self._allowed)),)


class PreconditionFailed(ManagementError):
    """Something stands against it that can be taken away."""

    status = 412
    error = "precondition_failed"


class Unavailable(ManagementError):
    """Nothing was done; the same may succeed later."""

    status = 503
    error = "service_unavailable"
