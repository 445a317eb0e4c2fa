"""Connections, channels, consumers: list, and end connections."""

from __future__ import annotations

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.dialect import ConnectionFacts
from mainstem.protocols.management.errors import NotFound
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.paths import Call, Path
from mainstem.protocols.management.mapping.amqp_words import connections_of
from mainstem.protocols.management.mapping.listing import listing, one
from mainstem.protocols.management.mapping.rows import channel_row, connection_row, consumer_row, found_in


class ClientPaths:
    """/api/connections, /api/channels, /api/consumers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/connections", self.connections),
            Path("GET", "/connections/{}", self.connection),
            Path("DELETE", "/connections/{}", self.close),
            Path("GET", "/connections/{}/channels", self.channels_of),
            Path("GET", "/connections/username/{}", self.connections_of_user),
            Path("DELETE", "/connections/username/{}", self.close_of_user),
            Path("GET", "/vhosts/{}/connections", self.connections_of_host),
            Path("GET", "/channels", self.channels),
            Path("GET", "/channels/{}", self.channel),
            Path("GET", "/vhosts/{}/channels", self.channels_of_host),
            Path("GET", "/consumers", self.consumers),
            Path("GET", "/consumers/{}", self.consumers_of_host),
        ]

    def _seen(self, caller: Caller) -> list[ConnectionFacts]:
        """Their own, or all."""
        found = connections_of(self._broker)
        return [facts for facts in found if caller.sees_all() or facts.user == caller.name]

    def connections(self, call: Call) -> Any:
        """All that the caller may see."""
        return listing([connection_row(facts) for facts in self._seen(call.caller)], call.query)

    def connection(self, call: Call) -> Any:
        """One of them."""
        return one(connection_row(self._find(call)), call.query)

    def close(self, call: Call) -> None:
        """End it."""
        self._find(call).close("Closed via management plugin")

    def connections_of_user(self, call: Call) -> Any:
        """Of one user."""
        seen = [facts for facts in self._seen(call.caller) if facts.user == call.steps[0]]
        return listing([connection_row(facts) for facts in seen], call.query)

    def close_of_user(self, call: Call) -> None:
        """End all of one user."""
        for facts in self._seen(call.caller):
            if facts.user == call.steps[0]:
                facts.close("Closed via management plugin")

    def connections_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        seen = [facts for facts in self._seen(call.caller) if facts.namespace == namespace]
        return listing([connection_row(facts) for facts in seen], call.query)

    def channels(self, call: Call) -> Any:
        """All that the caller may see."""
        return listing(self._channel_rows(call.caller), call.query)

    def channel(self, call: Call) -> Any:
        """One of them."""
        found = found_in(self._channel_rows(call.caller), name=call.steps[0])
        if not found:
            raise NotFound
        return one(found[0], call.query)

    def channels_of(self, call: Call) -> Any:
        """Of one connection."""
        facts = self._find(call)
        return listing([channel_row(facts, channel) for channel in facts.channels], call.query)

    def channels_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        call.caller.enter(call.steps[0])
        return listing(found_in(self._channel_rows(call.caller), vhost=call.steps[0]), call.query)

    def consumers(self, call: Call) -> Any:
        """All that the caller may see."""
        return listing(self._consumer_rows(call.caller), call.query)

    def consumers_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        call.caller.enter(call.steps[0])
        rows = [row for row in self._consumer_rows(call.caller) if row["queue"]["vhost"] == call.steps[0]]
        return listing(rows, call.query)

    def _channel_rows(self, caller: Caller) -> list[dict[str, Any]]:
        return [channel_row(facts, channel) for facts in self._seen(caller) for channel in facts.channels]

    def _consumer_rows(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            consumer_row(facts, channel, consumer)
            for facts in self._seen(caller)
            for channel in facts.channels
            for consumer in channel.consumers
        ]

    def _find(self, call: Call) -> ConnectionFacts:
        for facts in self._seen(call.caller):
            if facts.name == call.steps[0]:
                return facts
        raise NotFound
