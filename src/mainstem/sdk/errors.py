"""What can go wrong between a client and its broker, each as one sentence that says what to do.

    ClientError
    |-- BrokerUnreachable      nobody answers at the address
    |-- ConnectionLost         the broker went away, or did not answer in time, in the middle of a request
    |-- AuthenticationFailed   no credentials, or wrong ones
    `-- BrokerRefused          the broker answered, with an error code
        |-- UnknownTopic
        `-- OffsetMissing      the offset is below the log's start or above its end

The texts cross process borders as text only (Spark prints them), so nothing that matters is kept outside of them.
"""

from mainstem.model.errors import MainstemError
from mainstem.wire.kafka import ErrorCode, is_retriable


class ClientError(MainstemError):
    """Base of every error of the client."""

    is_retriable = False
    """Whether the same request may succeed later."""


class BrokerUnreachable(ClientError):
    """No connection to the address."""

    is_retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"No broker answers at {address} ({reason}): start it, or correct the option `address`.")


class ConnectionLost(ClientError):
    """The broker went away within a request."""

    is_retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"The broker at {address} went away within a request ({reason}): run again once it is back; "
            "nothing that was not committed has become visible."
        )


class AuthenticationFailed(ClientError):
    """The broker wants credentials that it was not given."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"The broker at {address} did not let us in ({reason}): set MAINSTEM_CLIENT_USER and "
            "MAINSTEM_CLIENT_PASSWORD in the environment of the driver, and of executors by spark.executorEnv."
        )


class BrokerRefused(ClientError):
    """The broker answered with an error code."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
        super().__init__(f"{what} was refused by the broker: {name}" + (f" ({message})." if message else "."))
        self.code = code
        self.is_retriable = is_retriable(code)


class UnknownTopic(BrokerRefused):
    """The broker has no such topic, or fewer partitions."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        what = f"Topic {topic!r}" if partition is None else f"Partition {partition} of topic {topic!r}"
        ClientError.__init__(
            self, f"{what} does not exist: create it, or correct the options `topic`, `topics` or `topicPattern`."
        )
        self.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.is_retriable = False


class OffsetMissing(BrokerRefused):
    """The offset is not in the log: retention took it, or it was never written."""

    def __init__(self, topic: str, partition: int, offset: int, start: int) -> None:
        ClientError.__init__(
            self, f"Offset {offset} of {topic}-{partition} is not in the log, which begins at {start}."
        )
        self.code = ErrorCode.OFFSET_OUT_OF_RANGE
        self.is_retriable = False
        self.start = start
