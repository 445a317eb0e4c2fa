"""Facts, each with its code on the wire."""

from __future__ import annotations

from enum import IntEnum

from mainstem.broker.errors import (
    GroupError,
    InvalidPartitionCount,
    InvalidTopicName,
    NotScheduled,
    ScheduleError,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
)
from mainstem.model.errors import (
    BatchTooLarge,
    EngineClosed,
    InvalidBatch,
    Overloaded,
    StorageFull,
    UnavailableError,
)


class ResponseCode(IntEnum):
    """Codes of answers of the remoting protocol."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206


class MalformedFrame(Exception):
    """Bytes that are no frame of the protocol: the connection is closed."""


class RequestRefused(Exception):
    """A request that is answered with a code and a text."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


_CODES: tuple[tuple[type[Exception], ResponseCode], ...] = (
    (UnknownTopic, ResponseCode.TOPIC_NOT_EXIST),
    (UnknownGroup, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    (TopicExists, ResponseCode.SYSTEM_ERROR),
    (InvalidTopicName, ResponseCode.MESSAGE_ILLEGAL),
    (InvalidPartitionCount, ResponseCode.INVALID_PARAMETER),
    (NotScheduled, ResponseCode.QUERY_NOT_FOUND),
    (ScheduleError, ResponseCode.MESSAGE_ILLEGAL),
    (GroupError, ResponseCode.NO_PERMISSION),
    (BatchTooLarge, ResponseCode.MESSAGE_ILLEGAL),
    (InvalidBatch, ResponseCode.MESSAGE_ILLEGAL),
    (StorageFull, ResponseCode.SERVICE_NOT_AVAILABLE),
    (Overloaded, ResponseCode.SYSTEM_BUSY),
    (EngineClosed, ResponseCode.SERVICE_NOT_AVAILABLE),
    (UnavailableError, ResponseCode.SERVICE_NOT_AVAILABLE),
)


def code_of(error: BaseException) -> ResponseCode:
    """The code for a refusal; SYSTEM_ERROR where the protocol has no word for it."""
    if isinstance(error, RequestRefused):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), ResponseCode.SYSTEM_ERROR)
