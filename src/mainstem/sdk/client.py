"""Finds the broker that has what is asked for, and keeps a connection to it.

The address given is where to begin; partitions are read and written at the address that their broker advertises. Reading
is tried again while the broker is away, up to the timeout; writing is left to the caller, who knows what a repetition means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mainstem.sdk.connection import TIMEOUT_S, BrokerConnection
from mainstem.sdk.credentials import Credentials
from mainstem.sdk.errors import BrokerUnreachable, ClientError, ConnectionLost
from mainstem.sdk.operations import (
    Cluster,
    Node,
    TopicPartition,
    commit_offsets,
    describe_cluster,
    fetch_committed,
    find_coordinator,
    list_offsets,
)

PORT_DEFAULT = 9092
RETRY_PAUSE_S = 0.1

T = TypeVar("T")


class InvalidAddress(ClientError):
    """Not HOST:PORT."""

    def __init__(self, text: str) -> None:
        super().__init__(f"The address {text!r} is not HOST:PORT: give the broker's Kafka listener, as 127.0.0.1:9092.")


def parse_address(text: str) -> Node:
    """The first of HOST:PORT,HOST:PORT that can be read; without a port it is Kafka's."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text.strip(), str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise InvalidAddress(text)
    return Node(host, int(port))


class Client:
    """Use as a context manager, from one thread."""

    def __init__(
        self,
        address: str,
        *,
        credentials: Credentials | None = None,
        timeout_s: float = TIMEOUT_S,
        client_id: str = "mainstem",
    ) -> None:
        self._bootstrap = [parse_address(part) for part in address.split(",")]
        self._credentials = Credentials.from_environment() if credentials is None else credentials
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._connections: dict[Node, BrokerConnection] = {}
        self._leaders: dict[TopicPartition, Node] = {}
        self._coordinators: dict[str, Node] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """All connections, at once."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def anywhere(self) -> BrokerConnection:
        """A connection to the first broker that answers."""
        for node in self._bootstrap[:-1]:
            try:
                return self._connect(node)
            except BrokerUnreachable:
                continue
        return self._connect(self._bootstrap[-1])

    def leader(self, at: TopicPartition) -> BrokerConnection:
        """A connection to the broker that has this partition."""
        if at not in self._leaders:
            self.cluster([at.topic])
        node = self._leaders.get(at)
        return self.anywhere() if node is None else self._connect(node)

    def cluster(self, topics: Iterable[str] | None = None, *, create: bool = False) -> Cluster:
        """The topics named, or all of them, with the nodes of their partitions."""
        wanted = None if topics is None else list(topics)
        found = self.retrying(lambda: describe_cluster(self.anywhere(), wanted, create=create))
        for topic, leaders in found.leaders.items():
            for partition, node_id in enumerate(leaders):
                if node_id in found.nodes:
                    self._leaders[TopicPartition(topic, partition)] = found.nodes[node_id]
        return found

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        """Topics and how many partitions each has; raises `UnknownTopic` for a named one that is not there."""
        return {topic: len(leaders) for topic, leaders in self.cluster(topics).leaders.items()}

    def offsets(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As `list_offsets`, each partition asked at its broker."""

        def ask() -> dict[TopicPartition, int]:
            by_connection: dict[int, tuple[BrokerConnection, dict[TopicPartition, int]]] = {}
            for at, position in positions.items():
                connection = self.leader(at)
                by_connection.setdefault(id(connection), (connection, {}))[1][at] = position
            found: dict[TopicPartition, int] = {}
            for connection, asked in by_connection.values():
                found |= list_offsets(connection, asked)
            return found

        return self.retrying(ask) if positions else {}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As `commit_offsets`, at the group's coordinator."""

        def store() -> None:
            commit_offsets(self._coordinator(group), group, offsets)

        if offsets:
            self.retrying(store)

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """As `fetch_committed`, at the group's coordinator."""
        wanted = list(partitions)

        def ask() -> dict[TopicPartition, int]:
            return fetch_committed(self._coordinator(group), group, wanted)

        return self.retrying(ask) if wanted else {}

    def retrying(self, ask: Callable[[], T]) -> T:
        """Runs what can be run twice, until it succeeds, fails for good, or the time is over."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask()
            except ClientError as error:
                self._leaders.clear()
                self._coordinators.clear()
                if not error.is_retriable or time.monotonic() >= deadline:
                    raise
                if isinstance(error, ConnectionLost):
                    self._connections = {node: one for node, one in self._connections.items() if one.is_open}
                time.sleep(RETRY_PAUSE_S)

    def _coordinator(self, group: str) -> BrokerConnection:
        """A connection to the group's coordinator, which is asked for once, until something fails."""
        node = self._coordinators.get(group)
        if node is None:
            node = self._coordinators[group] = find_coordinator(self.anywhere(), group)
        return self._connect(node)

    def _connect(self, node: Node) -> BrokerConnection:
        connection = self._connections.get(node)
        if connection is None or not connection.is_open:
            connection = BrokerConnection(
                node.host,
                node.port,
                credentials=self._credentials,
                timeout_s=self._timeout_s,
                client_id=self._client_id,
            )
            self._connections[node] = connection
        return connection
