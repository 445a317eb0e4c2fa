"""/v1/topic-rules: which topics and keys messages of devices get."""

from __future__ import annotations

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.devices import TopicRule
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.routing.exchanges import NamespaceQuery

OK, NO_CONTENT = 200, 204
TOPIC_RULES = "/v1/topic-rules"
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class TopicRulesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a namespace, in the order in which they are tried."""

    rules: list[TopicRule]
    namespace: str = DEFAULT_NAMESPACE


class TopicRuleHandlers:
    """Rules: show, set, take back."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownNamespace,)
        return [
            Route("GET", TOPIC_RULES, self.get_topic_rules, {OK: TopicRulesDocument}, query=NamespaceQuery,
                  refusals=unknown),
            Route("PUT", TOPIC_RULES, self.set_topic_rules, {OK: TopicRulesDocument}, content=TopicRulesDocument,
                  refusals=(errors.InvalidRule, *unknown, *WRITES)),
            Route("DELETE", TOPIC_RULES, self.reset_topic_rules, {NO_CONTENT: None}, query=NamespaceQuery,
                  refusals=(*unknown, *WRITES)),
        ]  # fmt: skip

    def get_topic_rules(self, call: Call) -> TopicRulesDocument:
        """Those that hold."""
        return self._shown(call.query.namespace)

    async def set_topic_rules(self, call: Call) -> TopicRulesDocument:
        """All of them at once; what was published before stays where it is."""
        wish: TopicRulesDocument = call.content
        self._check(wish.namespace)
        await self._broker.devices.set_rules(wish.namespace, tuple(wish.rules))
        return self._shown(wish.namespace)

    async def reset_topic_rules(self, call: Call) -> None:
        """Back to the one that holds without rules."""
        self._check(call.query.namespace)
        await self._broker.devices.set_rules(call.query.namespace, None)

    def _shown(self, namespace: str) -> TopicRulesDocument:
        self._check(namespace)
        return TopicRulesDocument(list(self._broker.devices.rules(namespace)), namespace)

    def _check(self, namespace: str) -> None:
        if self._broker.namespaces.find(namespace) is None:
            raise errors.UnknownNamespace(f"no namespace {namespace}")
