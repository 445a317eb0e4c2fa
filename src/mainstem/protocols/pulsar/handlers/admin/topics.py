"""Topics: made, removed, partitioned, compacted, ended."""

from __future__ import annotations

from typing import Any

from mainstem.broker.catalog.topics import Topic
from mainstem.protocols.pulsar.handlers.admin.namespaces import POLICIES, Policy, check_policy
from mainstem.protocols.pulsar.handlers.admin.paths import (
    CONFLICT,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    AdminRefused,
    Call,
    Path,
    not_here,
)
from mainstem.protocols.pulsar.handlers.admin.stats import Stats
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.handlers.topics import PLAIN, Log
from mainstem.protocols.pulsar.mapping.names import TopicName

BASE = "admin/v2/persistent/{}/{}"
TOPIC = f"{BASE}/{{}}"
PARTITIONS_MAX = 10_000
PROPERTIES = "properties"
OWN_POLICIES = "policies"


class TopicPaths:
    """What is asked about topics."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._topics = parts.topics
        self._book = parts.book
        self._broker = parts.broker
        self._stats = Stats(parts)

    def paths(self) -> list[Path]:
        """All of them."""
        policies = [path for policy in POLICIES if policy.is_for_topics for path in self._policy_paths(policy)]
        return [
            Path("GET", BASE, self.list_all),
            Path("GET", f"{BASE}/partitioned", self.list_partitioned),
            Path("PUT", TOPIC, self.create),
            Path("DELETE", TOPIC, self.remove),
            Path("GET", f"{TOPIC}/partitions", self.partitions),
            Path("PUT", f"{TOPIC}/partitions", self.create_partitioned),
            Path("POST", f"{TOPIC}/partitions", self.expand),
            Path("DELETE", f"{TOPIC}/partitions", self.remove),
            Path("GET", f"{TOPIC}/stats", self.stats),
            Path("GET", f"{TOPIC}/partitioned-stats", self.partitioned_stats),
            Path("GET", f"{TOPIC}/internalStats", self.internal_stats),
            Path("GET", f"{TOPIC}/partitioned-internalStats", self.partitioned_internal_stats),
            Path("GET", f"{TOPIC}/lastMessageId", self.last_message_id),
            Path("GET", f"{TOPIC}/messageid/{{}}", self.message_id_by_time),
            Path("GET", f"{TOPIC}/compaction", self.compaction),
            Path("PUT", f"{TOPIC}/compaction", self.compact),
            Path("POST", f"{TOPIC}/terminate", self.terminate),
            Path("PUT", f"{TOPIC}/unload", self.unload),
            Path("GET", f"{TOPIC}/permissions", lambda call: {}),
            Path("GET", f"{TOPIC}/properties", self.properties),
            Path("PUT", f"{TOPIC}/properties", self.put_properties),
            Path("DELETE", f"{TOPIC}/properties", self.remove_property),
            Path("GET", f"{BASE}/{{}}/bundle", lambda call: "0x00000000_0xffffffff"),
            *(Path(method, f"{TOPIC}/{name}", not_here(what)) for method in ("GET", "PUT", "POST") for name, what in (
                ("offload", "offload policies"), ("replication", "replicated clusters"), ("shadowTopics", "shadow topics"),
            )),
            Path("GET", "admin/v2/non-persistent/{}/{}", self.list_none),
            Path("GET", "admin/v2/non-persistent/{}/{}/partitioned", self.list_none),
            *policies,
        ]  # fmt: skip

    # Lists

    def _place(self, call: Call) -> str:
        place = call.place
        if not self._book.has_place(place):
            raise AdminRefused(NOT_FOUND, f"Namespace does not exist: {place}")
        return place

    def list_all(self, call: Call) -> list[str]:
        """Each partition by its own name."""
        return self._topics.names(self._place(call))

    def list_none(self, call: Call) -> list[str]:
        """None of these are kept."""
        self._place(call)
        return []

    def list_partitioned(self, call: Call) -> list[str]:
        """Those that have partitions, by their whole names."""
        return self._topics.partitioned_names(self._place(call))

    # Coming and going

    def _find(self, name: TopicName) -> Topic:
        self._topics.check_place(name)
        topic = self._topics.find(name)
        if topic is None or name.partition >= len(topic.logs):
            raise AdminRefused(NOT_FOUND, f"Topic {name} not found")
        return topic

    def _log(self, call: Call) -> Log:
        """One partition, or a topic without any. Raises AdminRefused."""
        name = call.topic()
        topic = self._find(name)
        if name.partition < 0 and len(topic.logs) > 1:
            raise AdminRefused(PRECONDITION, f"{name} is a partitioned topic: name one of its partitions")
        return self._topics.log_of(topic, name)

    def _check_new(self, name: TopicName) -> None:
        self._topics.check_place(name)
        if self._topics.find(name) is not None:
            raise AdminRefused(CONFLICT, "This topic already exists")

    async def create(self, call: Call) -> None:
        """Without partitions."""
        name = call.topic()
        self._check_new(name)
        await self._topics.create(name, 0)

    async def create_partitioned(self, call: Call) -> None:
        """With N partitions."""
        name, count = call.topic(), call.number()
        if not 0 < count <= PARTITIONS_MAX:
            raise AdminRefused(PRECONDITION, f"Number of partitions should be within 1 and {PARTITIONS_MAX}")
        if name.partition >= 0:
            raise AdminRefused(PRECONDITION, "the name of a partitioned topic does not end with -partition-N")
        self._check_new(name)
        await self._topics.create(name, count)

    async def expand(self, call: Call) -> None:
        """To N partitions."""
        name, count = call.topic(), call.number()
        topic = self._find(name)
        if self._book.facts(topic).get(PLAIN) == 0:
            raise AdminRefused(CONFLICT, f"Topic {name} is not partitioned topic")
        if not len(topic.logs) <= count <= PARTITIONS_MAX:
            raise AdminRefused(PRECONDITION, f"the topic has {len(topic.logs)} partitions already")
        if count > len(topic.logs):
            await self._broker.topics.expand(topic.name, count, namespace=topic.namespace)

    async def remove(self, call: Call) -> None:
        """With all that is in it; one that is in use by force alone."""
        topic = self._find(call.topic())
        if not call.is_set("force") and self._parts.is_used(topic):
            raise AdminRefused(PRECONDITION, "Topic has active producers/subscriptions")
        await self._parts.delete_topic(topic)

    def partitions(self, call: Call) -> dict[str, Any]:
        """How many."""
        name = call.topic()
        may_create = call.is_set("checkAllowAutoCreation") and self._topics.may_create(name)
        self._topics.check_place(name)
        if self._topics.find(name) is None and not may_create:
            return {"partitions": 0, "deleted": False, "properties": {}}
        return {"partitions": self._topics.partitions_of(name, may_create=True), "deleted": False}

    # Looking

    async def stats(self, call: Call) -> dict[str, Any]:
        """Of one partition, or of a topic without any."""
        return await self._stats.of_log(self._log(call))

    async def partitioned_stats(self, call: Call) -> dict[str, Any]:
        """Of all together, and of each."""
        name = call.topic()
        topic = self._find(name)
        if not self._topics.partitions(topic):
            raise AdminRefused(NOT_FOUND, f"Partitioned Topic not found: {name}")
        return await self._stats.of_topic(name, topic)

    async def internal_stats(self, call: Call) -> dict[str, Any]:
        """One ledger: the log."""
        return await self._stats.ledgers(self._log(call))

    async def partitioned_internal_stats(self, call: Call) -> dict[str, Any]:
        """The same of each partition."""
        name = call.topic()
        topic = self._find(name)
        found = {
            str(name._replace(partition=number)): await self._stats.ledgers(Log(topic, number, log))
            for number, log in enumerate(topic.logs)
        }
        return {"metadata": {"partitions": len(topic.logs), "deleted": False}, "partitions": found}

    async def last_message_id(self, call: Call) -> dict[str, Any]:
        """The last message; -1 where there is none."""
        log = self._log(call)
        unit = await self._topics.last_unit(log.number)
        if unit is None:
            return {"ledgerId": -1, "entryId": -1, "partitionIndex": log.partition}
        return self._identity(log, unit.first, unit.messages - 1)

    def _identity(self, log: Log, entry: int, index: int = -1) -> dict[str, Any]:
        found = {"ledgerId": log.number, "entryId": entry, "partitionIndex": log.partition}
        return found if index < 0 else {**found, "batchIndex": index, "batchSize": index + 1}

    async def message_id_by_time(self, call: Call) -> dict[str, Any]:
        """The first message at or after a time."""
        log = self._log(call)
        offset = await self._parts.offset_at_time(log.number, call.steps[3])
        unit = await self._topics.unit_at(log.number, offset)
        return self._identity(log, offset if unit is None else unit.first)

    # Changing

    def compaction(self, call: Call) -> dict[str, Any]:
        """How it is going."""
        log = self._log(call)
        return {"status": self._parts.compaction.status(log.number, log.topic, log.part), "lastError": ""}

    def compact(self, call: Call) -> None:
        """Begin."""
        log = self._log(call)
        if self._parts.compaction.is_running(log.number):
            raise AdminRefused(CONFLICT, "Compaction already in progress")
        self._parts.spawn(self._parts.compaction.compact(log.topic, log.part))

    async def terminate(self, call: Call) -> dict[str, Any]:
        """Nothing more is published to it."""
        name = call.topic()
        log = self._log(call)
        if len(log.topic.logs) > 1:
            raise AdminRefused(NOT_ALLOWED, f"{name.whole} has partitions: it cannot be ended")
        await self._parts.terminate(log)
        return await self.last_message_id(call)

    def unload(self, call: Call) -> None:
        """Nothing is loaded here: clients come again by themselves."""
        self._find(call.topic())

    def properties(self, call: Call) -> dict[str, str]:
        """What administrators noted."""
        found: dict[str, str] = self._book.facts(self._find(call.topic())).get(PROPERTIES, {})
        return found

    async def put_properties(self, call: Call) -> None:
        """More of them."""
        topic = self._find(call.topic())
        added = {str(name): str(value) for name, value in call.object().items()}
        await self._book.put_fact(topic, PROPERTIES, {**self.properties(call), **added})

    async def remove_property(self, call: Call) -> None:
        """One less."""
        found = self.properties(call)
        found.pop(call.query.get("key", ""), None)
        await self._book.put_fact(self._find(call.topic()), PROPERTIES, found)

    def _policy_paths(self, policy: Policy) -> list[Path]:
        def own(call: Call) -> tuple[Topic, dict[str, Any]]:
            topic = self._find(call.topic())
            return topic, dict(self._book.facts(topic).get(OWN_POLICIES, {}))

        def show(call: Call) -> Any:
            topic, found = own(call)
            if call.is_set("applied"):
                return self._book.policy(topic, policy.name)
            return found.get(policy.name)

        async def put(call: Call) -> None:
            topic, found = own(call)
            found[policy.name] = check_policy(policy, call)
            await self._book.put_fact(topic, OWN_POLICIES, found)

        async def remove(call: Call) -> None:
            topic, found = own(call)
            found.pop(policy.name, None)
            await self._book.put_fact(topic, OWN_POLICIES, found)

        path = f"{TOPIC}/{policy.path}"
        return [
            Path("GET", path, show), Path("POST", path, put), Path("PUT", path, put), Path("DELETE", path, remove)
        ]  # fmt: skip
