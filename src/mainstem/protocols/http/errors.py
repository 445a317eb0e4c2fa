"""What is answered instead of what was asked for: each fact with its status and its stable name.

HttpError
|-- about the bytes                 InvalidRequest 400, RequestTimeout 408, BodyTooLarge 413, HeadTooLarge 431,
|                                   UnsupportedVersion 505
|-- about where they were sent      CrossSiteRequest 403, UnknownPath 404, MethodNotAllowed 405,
|                                   MisdirectedRequest 421
|-- about what they say             InvalidParameter 400, InvalidContent 400, UnsupportedMediaType 415
|-- about topics and groups         InvalidTopicName, InvalidPartitionCount, InvalidConfig, OffsetOutOfRange 400,
|                                   UnknownTopic, UnknownPartition, UnknownGroup 404, TopicExists, GroupNotEmpty 409
|-- about records                   RefusedRecord 400, RecordTooLarge 413, KeyReused 422
|-- about stages                    InvalidStage 400, UnknownStage 404, IncompleteStage, StaleBatch, RefusedBatch 409,
|                                   TooMuchScheduled 413
|-- about acquisitions              InvalidVerdict 400, UnknownAcquisition 404, AcquisitionReleased, UnsuitableSource 409
|-- about schedules and queues      InvalidSchedule, InvalidQueue 400, NotScheduled, UnknownQueue, UnknownMessage,
|                                   UnknownRedrive 404, QueueBusy, QueueDiffers 409
|-- about pipelines                 InvalidPipeline 400, UnknownPipeline 404, BuiltInPipeline, StaleLease 409
|-- about alarms                    InvalidRule 400, UnknownRule 404
|-- about users                     LoginNeeded 401, Forbidden 403, InvalidUser 400, UnknownUser 404, UserExists 409
|-- about exchanges                 InvalidExchange 400, UnknownNamespace, UnknownExchange, UnknownBinding 404,
|                                   ExchangeDiffers, ExchangeInUse 409
|-- about clients                   UnknownConnection 404, NoReply 504
`-- about us                        InternalError, DiskFailure 500; StorageFull, Overloaded, Unavailable 503

A name, once given, stays: programs compare it. It becomes the `type` of an RFC 9457 problem, the first line of the class's
text its `title`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.wire.http.errors import (
    BodyTooLarge,
    CrossSiteRequest,
    HeadTooLarge,
    HttpError,
    InvalidRequest,
    MisdirectedRequest,
    RequestTimeout,
    UnsupportedVersion,
)

__all__ = [
    "TYPE_PREFIX",
    "BodyTooLarge",
    "BuiltInPipeline",
    "CrossSiteRequest",
    "DiskFailure",
    "Forbidden",
    "GroupNotEmpty",
    "HeadTooLarge",
    "HttpError",
    "InternalError",
    "InvalidConfig",
    "InvalidContent",
    "InvalidParameter",
    "InvalidPartitionCount",
    "InvalidPipeline",
    "InvalidQueue",
    "InvalidRequest",
    "InvalidRule",
    "InvalidSchedule",
    "InvalidTopicName",
    "InvalidUser",
    "KeyReused",
    "LoginNeeded",
    "MethodNotAllowed",
    "MisdirectedRequest",
    "NotScheduled",
    "OffsetOutOfRange",
    "Overloaded",
    "QueueBusy",
    "QueueDiffers",
    "RecordTooLarge",
    "RefusedRecord",
    "RequestTimeout",
    "StaleLease",
    "StorageFull",
    "TopicExists",
    "Unavailable",
    "UnknownGroup",
    "UnknownMessage",
    "UnknownPartition",
    "UnknownPath",
    "UnknownPipeline",
    "UnknownQueue",
    "UnknownRedrive",
    "UnknownRule",
    "UnknownTopic",
    "UnknownUser",
    "UnsupportedMediaType",
    "UnsupportedVersion",
    "UserExists",
    "escape_pointer",
]

TYPE_PREFIX = "urn:mainstem:problem:"


# About where they were sent


class UnknownPath(HttpError):
    """Nothing is here."""

    status = 404
    name = "unknown-path"


class MethodNotAllowed(HttpError):
    """The path exists, for other methods."""

    status = 405
    name = "method-not-allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed here")
        self.allowed = tuple(allowed)

    def headers(self) -> list[tuple[str, str]]:
        """RFC 9110, 15.5.6: Allow must be sent."""
        return [("allow", ", ".join(self.allowed))]


# About what they say


class InvalidParameter(HttpError):
    """A parameter of the path or the query cannot be."""

    status = 400
    name = "invalid-parameter"

    def __init__(self, detail: str, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter

    def members(self) -> dict[str, str]:
        """Which one."""
        return {"parameter": self.parameter}


class InvalidContent(HttpError):
    """The content is not what the path takes."""

    status = 400
    name = "invalid-content"

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.pointer = pointer

    def members(self) -> dict[str, str]:
        """Where: a JSON pointer (RFC 6901) into the content."""
        return {"pointer": self.pointer}


class UnsupportedMediaType(HttpError):
    """The content is of another type than the path takes."""

    status = 415
    name = "unsupported-media-type"

    def headers(self) -> list[tuple[str, str]]:
        """RFC 9110, 15.5.16."""
        return [("accept", "application/json")]


# About users


class LoginNeeded(HttpError):
    """Nobody is let in like this."""

    status = 401
    name = "login-needed"

    def headers(self) -> list[tuple[str, str]]:
        """RFC 9110, 15.5.2. Not `Basic`: a browser would ask for a password before the page can."""
        return [("www-authenticate", 'Bearer realm="mainstem"')]


class Forbidden(HttpError):
    """The user may not do this."""

    status = 403
    name = "forbidden"


class InvalidUser(HttpError):
    """A user cannot be like this."""

    status = 400
    name = "invalid-user"


class UnknownUser(HttpError):
    """There is no such user."""

    status = 404
    name = "unknown-user"


class UserExists(HttpError):
    """The name is taken by a user."""

    status = 409
    name = "user-exists"


# About topics and groups


class InvalidTopicName(HttpError):
    """The name cannot be a topic's."""

    status = 400
    name = "invalid-topic-name"


class InvalidPartitionCount(HttpError):
    """Not a number of partitions that the topic can have."""

    status = 400
    name = "invalid-partition-count"


class InvalidConfig(HttpError):
    """The configuration is unknown, or its value is not kept here."""

    status = 400
    name = "invalid-config"

    def __init__(self, detail: str, key: str = "") -> None:
        super().__init__(detail)
        self.key = key

    def members(self) -> dict[str, str]:
        """The offending key, and where it is in the content."""
        return {"key": self.key, "pointer": f"/config/{escape_pointer(self.key)}"} if self.key else {}


class OffsetOutOfRange(HttpError):
    """The offset is below the start of the partition or above its end."""

    status = 400
    name = "offset-out-of-range"


class UnknownTopic(HttpError):
    """There is no such topic."""

    status = 404
    name = "unknown-topic"


class UnknownPartition(HttpError):
    """The topic has no such partition."""

    status = 404
    name = "unknown-partition"


class UnknownGroup(HttpError):
    """There is no such group."""

    status = 404
    name = "unknown-group"


class GroupNotEmpty(HttpError):
    """The group has members, or a Spark query has records of it."""

    status = 409
    name = "group-not-empty"


class TopicExists(HttpError):
    """The name is taken."""

    status = 409
    name = "topic-exists"


# About records


class RefusedRecord(HttpError):
    """The topic does not take a record: it has no key, or its time is too far from ours."""

    status = 400
    name = "refused-record"

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.pointer = pointer

    def members(self) -> dict[str, str]:
        """Which record of the content."""
        return {"pointer": self.pointer} if self.pointer else {}


class RecordTooLarge(HttpError):
    """A record is larger than its topic takes."""

    status = 413
    name = "record-too-large"


class KeyReused(HttpError):
    """The Idempotency-Key was used for a request of other content."""

    status = 422
    name = "idempotency-key-reused"


# About stages


class InvalidStage(HttpError):
    """Not the name of a stage, or not of this sink."""

    status = 400
    name = "invalid-stage"


class UnknownStage(HttpError):
    """There is no such stage: never written, expired, or published with its batch."""

    status = 404
    name = "unknown-stage"


class IncompleteStage(HttpError):
    """The stage does not end where its writer says."""

    status = 409
    name = "incomplete-stage"


class TooMuchScheduled(HttpError):
    """A batch schedules more than one commit can hold."""

    status = 413
    name = "too-much-scheduled"


class StaleBatch(HttpError):
    """A later batch of the sink is published already."""

    status = 409
    name = "stale-batch"


class RefusedBatch(HttpError):
    """The topic does not take a record batch that is meant for it."""

    status = 409
    name = "refused-batch"


# About acquisitions


class InvalidVerdict(HttpError):
    """A verdict on a record that the acquisition does not hold, or a second one."""

    status = 400
    name = "invalid-verdict"


class UnknownAcquisition(HttpError):
    """There is no such acquisition: it expired before it was pinned, or its query has gone on."""

    status = 404
    name = "unknown-acquisition"


class AcquisitionReleased(HttpError):
    """The acquisition was released by command: its records are free for others."""

    status = 409
    name = "acquisition-released"


class UnsuitableSource(HttpError):
    """Nothing can be acquired from such a queue."""

    status = 409
    name = "unsuitable-source"


# About schedules and queues


class InvalidSchedule(HttpError):
    """Not a time, a rule or a zone that can be kept."""

    status = 400
    name = "invalid-schedule"


class NotScheduled(HttpError):
    """Nothing waits or recurs by this name: it never did, was cancelled, or has happened."""

    status = 404
    name = "not-scheduled"


class UnknownQueue(HttpError):
    """There is no such queue."""

    status = 404
    name = "unknown-queue"


class UnknownMessage(HttpError):
    """No such message waits there."""

    status = 404
    name = "unknown-message"


class UnknownRedrive(HttpError):
    """There is no such redrive."""

    status = 404
    name = "unknown-redrive"


class InvalidQueue(HttpError):
    """Not a queue that can be."""

    status = 400
    name = "invalid-queue"


class QueueDiffers(HttpError):
    """A queue of this name is there, with other properties."""

    status = 409
    name = "queue-differs"


class QueueBusy(HttpError):
    """The queue is in use: by a consumer that has it to itself, or by any where it must be unused or empty."""

    status = 409
    name = "queue-busy"


# About pipelines


class InvalidPipeline(HttpError):
    """The name, the definition or a file of it cannot be kept."""

    status = 400
    name = "invalid-pipeline"


class UnknownPipeline(HttpError):
    """There is no such pipeline."""

    status = 404
    name = "unknown-pipeline"


class BuiltInPipeline(HttpError):
    """The pipeline is the broker's own."""

    status = 409
    name = "built-in-pipeline"


class StaleLease(HttpError):
    """The pipeline is another worker's by now: the worker that reports must stop."""

    status = 409
    name = "stale-lease"


# About alarms


class InvalidRule(HttpError):
    """Not a rule that can be followed."""

    status = 400
    name = "invalid-rule"


class UnknownRule(HttpError):
    """There is no such rule."""

    status = 404
    name = "unknown-rule"


# About exchanges


class UnknownNamespace(HttpError):
    """There is no such namespace."""

    status = 404
    name = "unknown-namespace"


class UnknownExchange(HttpError):
    """There is no such exchange."""

    status = 404
    name = "unknown-exchange"


class UnknownBinding(HttpError):
    """There is no such binding."""

    status = 404
    name = "unknown-binding"


class InvalidExchange(HttpError):
    """The exchange or binding cannot be like this."""

    status = 400
    name = "invalid-exchange"


class ExchangeDiffers(HttpError):
    """An exchange of this name is there, and is another one."""

    status = 409
    name = "exchange-differs"


class ExchangeInUse(HttpError):
    """Bindings begin at the exchange."""

    status = 409
    name = "exchange-in-use"


# About clients


class NoReply(HttpError):
    """Nobody has answered in time."""

    status = 504
    name = "no-reply"


class UnknownConnection(HttpError):
    """There is no such connection, or no more."""

    status = 404
    name = "unknown-connection"


# About us


class InternalError(HttpError):
    """A bug of ours; the log has the rest."""


class DiskFailure(HttpError):
    """The disk, or what is on it, is not as it must be."""

    status = 500
    name = "disk-failure"


class Unavailable(HttpError):
    """The broker is going, or coming back."""

    status = 503
    name = "unavailable"
    retry_after_s = 5

    def headers(self) -> list[tuple[str, str]]:
        """Nothing was done; the same request may succeed later."""
        return [("retry-after", str(self.retry_after_s))]


class StorageFull(Unavailable):
    """The disk is full: nothing is taken until space returns."""

    name = "storage-full"
    retry_after_s = 30


class Overloaded(Unavailable):
    """More waits to be written than is allowed."""

    name = "overloaded"
    retry_after_s = 1


def escape_pointer(token: str) -> str:
    """One step of a JSON pointer (RFC 6901, 3)."""
    return token.replace("~", "~0").replace("/", "~1")
