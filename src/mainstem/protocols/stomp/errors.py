"""What can go wrong in STOMP, in the words of RabbitMQ: the `message` header of an ERROR frame, and its body.

StompError          ends the connection behind its ERROR frame, as the standard demands
`-- MalformedFrame  where the next frame would begin is no longer known
"""

from __future__ import annotations

from typing import NoReturn


class StompError(Exception):
    """Told to the client in an ERROR frame."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(f"{message}: {detail.strip()}" if detail else message)
        self.message = message
        self.detail = detail


class MalformedFrame(StompError):
    """These bytes are no frame."""

    def __init__(self, detail: str) -> None:
        super().__init__("Malformed frame", f"{detail}\n")


def access_refused(what: str) -> NoReturn:
    """The user may not."""
    raise StompError("access_refused", what)


def not_found(what: str) -> NoReturn:
    """There is no such thing."""
    raise StompError("not_found", what)


def precondition_failed(what: str) -> NoReturn:
    """It cannot be said like this."""
    raise StompError("precondition_failed", what)


def resource_locked(what: str) -> NoReturn:
    """Another connection has it to itself."""
    raise StompError("resource_locked", what)


def invalid_header(detail: str) -> NoReturn:
    """A header cannot have this value."""
    raise StompError("Invalid header", f"{detail}\n")
