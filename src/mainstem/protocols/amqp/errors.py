"""What can go wrong in AMQP, with the codes and words that clients of RabbitMQ know.

    AmqpError
    |-- ChannelError       closes the channel (a "soft" error)
    `-- ConnectionError_   closes the connection (a "hard" error)

The text a client is told is the name of the code, a dash and an explanation: clients match on it.
"""

from __future__ import annotations

from typing import NoReturn

NO_ROUTE = 312
CONNECTION_FORCED = 320
RESOURCE_ERROR = 506
INTERNAL_ERROR = 541
REPLY_TEXT_BYTES_MAX = 255

SOFT = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
}
HARD = {
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}


class AmqpError(Exception):
    """An exception in AMQP's sense: a code and a text for the peer."""

    def __init__(self, code: int, explanation: str) -> None:
        super().__init__(explanation)
        self.code = code
        self.explanation = explanation

    @property
    def text(self) -> str:
        """As the peer is told; a short string holds 255 bytes."""
        text = f"{(SOFT | HARD)[self.code]} - {self.explanation}"
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > REPLY_TEXT_BYTES_MAX:
            text = encoded[: REPLY_TEXT_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."
        return text


class ChannelError(AmqpError):
    """Ends the channel."""


class ConnectionError_(AmqpError):  # noqa: N801 - ConnectionError is Python's own, and means a socket
    """Ends the connection."""


class FatalFrameError(ConnectionError_):
    """Where the next frame would begin is no longer known."""

    def __init__(self, explanation: str) -> None:
        super().__init__(501, explanation)


def fail(code: int, explanation: str) -> NoReturn:
    """Raise the error of this code: what it closes follows from the code."""
    raise (ChannelError if code in SOFT else ConnectionError_)(code, explanation)


def access_refused(explanation: str) -> NoReturn:
    """403."""
    fail(403, explanation)


def not_found(explanation: str) -> NoReturn:
    """404."""
    fail(404, explanation)


def resource_locked(explanation: str) -> NoReturn:
    """405."""
    fail(405, explanation)


def precondition_failed(explanation: str) -> NoReturn:
    """406."""
    fail(406, explanation)


def not_allowed(explanation: str) -> NoReturn:
    """530, which ends the connection."""
    fail(530, explanation)


def not_implemented(explanation: str) -> NoReturn:
    """540, which ends the connection."""
    fail(540, explanation)
