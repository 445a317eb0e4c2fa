"""What is answered instead of what was asked for, with its code on the wire."""

from __future__ import annotations

import enum

from mainstem.broker import errors as broker_errors
from mainstem.model import errors as model_errors


class ServerError(enum.IntEnum):
    """Codes of refusals."""

    UNKNOWN = 0
    METADATA = 1
    PERSISTENCE = 2
    AUTHENTICATION = 3
    AUTHORIZATION = 4
    CONSUMER_BUSY = 5
    SERVICE_NOT_READY = 6
    QUOTA_EXCEEDED_ERROR = 7
    QUOTA_EXCEEDED_EXCEPTION = 8
    CHECKSUM = 9
    UNSUPPORTED_VERSION = 10
    TOPIC_NOT_FOUND = 11
    SUBSCRIPTION_NOT_FOUND = 12
    CONSUMER_NOT_FOUND = 13
    TOO_MANY_REQUESTS = 14
    TOPIC_TERMINATED = 15
    PRODUCER_BUSY = 16
    INVALID_TOPIC_NAME = 17
    INCOMPATIBLE_SCHEMA = 18
    CONSUMER_ASSIGN = 19
    COORDINATOR_NOT_FOUND = 20
    INVALID_TXN_STATUS = 21
    NOT_ALLOWED = 22
    TRANSACTION_CONFLICT = 23
    TRANSACTION_NOT_FOUND = 24
    PRODUCER_FENCED = 25


class MalformedFrame(Exception):
    """Bytes that are no command: the connection is closed."""


class CommandRefused(Exception):
    """A command is answered by an error."""

    def __init__(self, error: ServerError, reason: str) -> None:
        super().__init__(reason)
        self.error = error


CODES: tuple[tuple[type[model_errors.MainstemError], ServerError], ...] = (
    (broker_errors.UnknownTopic, ServerError.TOPIC_NOT_FOUND),
    (broker_errors.UnknownNamespace, ServerError.TOPIC_NOT_FOUND),
    (broker_errors.InvalidTopicName, ServerError.INVALID_TOPIC_NAME),
    (broker_errors.UnknownSubscription, ServerError.SUBSCRIPTION_NOT_FOUND),
    (broker_errors.SubscriptionBusy, ServerError.CONSUMER_BUSY),
    (broker_errors.QueueBusy, ServerError.CONSUMER_BUSY),
    (broker_errors.SettlementConflict, ServerError.TRANSACTION_CONFLICT),
    (broker_errors.UnknownTransaction, ServerError.TRANSACTION_NOT_FOUND),
    (broker_errors.TransactionError, ServerError.INVALID_TXN_STATUS),
    (model_errors.BatchTooLarge, ServerError.NOT_ALLOWED),
    (model_errors.InvalidBatch, ServerError.NOT_ALLOWED),
    (model_errors.StorageFull, ServerError.PERSISTENCE),
    (model_errors.UnavailableError, ServerError.SERVICE_NOT_READY),
    (model_errors.DiskError, ServerError.PERSISTENCE),
)


def code_of(error: BaseException) -> ServerError:
    """Of what the broker refuses with."""
    if isinstance(error, CommandRefused):
        return error.error
    return next((code for kind, code in CODES if isinstance(error, kind)), ServerError.UNKNOWN)
