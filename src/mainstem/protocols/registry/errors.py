"""What is answered instead of what was asked for: a status, and the registry's own code, which clients compare.

RegistryError
|-- BadRequest 400, LoginNeeded 401, Forbidden 403, NotFound 404, MethodNotAllowed 405, Unprocessable 422
`-- StoreFailed 50001
Refusals of the store have their codes in `CODES`.
"""

from __future__ import annotations

from mainstem.broker.schemas import errors
from mainstem.model.errors import MainstemError


class RegistryError(Exception):
    """The request failed."""

    status = 500
    code = 50001

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What the status obliges us to say."""
        return ()


class StoreFailed(RegistryError):
    """Nothing was done, or nobody knows; the same may succeed later."""


class BadRequest(RegistryError):
    """What was said cannot be read."""

    status = code = 400


class LoginNeeded(RegistryError):
    """Nobody knows who asks."""

    status = code = 401

    def headers(self) -> tuple[tuple[str, str], ...]:
        """RFC 9110, 15.5.2."""
        return (("www-authenticate", 'Basic realm="Schema Registry"'),)


class Forbidden(RegistryError):
    """A user who may not."""

    status = code = 403


class NotFound(RegistryError):
    """Nothing is here."""

    status = code = 404


class MethodNotAllowed(RegistryError):
    """The path exists, for other methods."""

    status = code = 405

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__("HTTP 405 Method Not Allowed")
        self._allowed = allowed

    def headers(self) -> tuple[tuple[str, str], ...]:
        """RFC 9110, 15.5.6."""
        return (("allow", ", ".join(self._allowed)),)


class Unprocessable(RegistryError):
    """What was said cannot be."""

    status = code = 422


class Refusal(RegistryError):
    """What the store refuses."""

    def __init__(self, status: int, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


INVALID_SCHEMA, INVALID_LEVEL, INVALID_MODE = 42201, 42203, 42204
NO_LEVEL, NO_MODE = 40408, 40409
CODES: dict[type[MainstemError], tuple[int, int]] = {
    errors.UnknownSubject: (404, 40401),
    errors.UnknownVersion: (404, 40402),
    errors.UnknownSchema: (404, 40403),
    errors.SubjectDeleted: (404, 40404),
    errors.SubjectNotDeleted: (404, 40405),
    errors.VersionDeleted: (404, 40406),
    errors.VersionNotDeleted: (404, 40407),
    errors.InvalidSchema: (422, INVALID_SCHEMA),
    errors.InvalidVersion: (422, 42202),
    errors.InvalidSetting: (422, INVALID_MODE),
    errors.NotPermitted: (422, 42205),
    errors.SchemaReferenced: (422, 42206),
    errors.IdDiffers: (422, 42207),
    errors.InvalidSubject: (422, 42208),
    errors.IncompatibleSchema: (409, 409),
}
