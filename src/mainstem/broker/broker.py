"""The broker: what every protocol adapter is given.

    publish       commit batches (and state) to logs
    intake        whether clients that publish have to wait
    read, find    batches and positions
    watch         be told when logs grow
    topics        administer topics
    producers     identities of idempotent producers
    groups        members that share partitions, and how far they have come
    group_seeking moves the offsets of groups
    group_configs what is set for single groups
    share_groups  members that take records one by one, over subscriptions
    streams_groups members of streams applications, and the tasks that the broker assigns to them
    routes        exchanges and bindings: where a published message goes
    queues        logs read as queues, pushed to consumers
    topic_subscriptions  topics read by many subscriptions, each by its name
    transacted    messages that a transaction settles with its end
    pulling       messages of queues and subscriptions, taken for a time
    receipts      messages that were pulled, known by a name, for clients that keep no connection
    namespaces    what separates topics, queues and exchanges of one tenant from another's
    access        users, and what they may do
    door          lets clients of every protocol in: by password, SCRAM, token, certificate
    policies      properties of queues and exchanges by their names
    envelopes     how messages were addressed, by the protocol that published them
    dialects      how each protocol of queues words what administrators see
    letters       messages of a queue, looked at and edited where they are
    redrives      dead letters on their way back
    devices       topics in levels, sessions that outlive connections, retained messages, wills
    schedules     records that are published later
    recurrences   records that are published again and again
    transactions  batches and offsets that count together
    delegation    tokens by which somebody acts as another user for a while
    sessions      who has logged in by a browser
    client_quotas, client_metrics   what administrators set for clients
    acquisitions  records that queries of Spark have taken, until they say what became of them
    stages        batches of many tasks that are published together, once
    alarms        rules over what is measured, and what they found
    live          numbers of the whole broker, with a short history
    records       records of a topic, page by page, for readers without a group
    requests      records that wait for a reply
    publications  records of one request, published together, once where the client names it
    sequences     the highest sequence of each named producer, by log
    pipelines     what Spark is to run, and who runs it
    trace         where a message went
    chronicle     who published, was given and committed what
    schemas       what records consist of: subjects, versions, ids, and what is compatible
    decoding      values that name their schema, as JSON for people

Publishing and reading are the engine's own methods, not wrapped: on the hot path a call costs as much as a check.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

from mainstem.broker.acquisitions import Acquisitions
from mainstem.broker.administration import Administration, Namespaces, Parameters, Policies
from mainstem.broker.alarms.alarms import Alarms
from mainstem.broker.catalog.topics import Topics
from mainstem.broker.catalog.topology import CatalogTopology
from mainstem.broker.clients.metrics import ClientMetrics
from mainstem.broker.clients.quotas import ClientQuotas
from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters.browsing import Letters
from mainstem.broker.dead_letters.record_letters import RecordLetters
from mainstem.broker.dead_letters.redrives import Redrives
from mainstem.broker.devices import Devices
from mainstem.broker.dialect import Dialects
from mainstem.broker.groups.directed_groups import DirectedGroups
from mainstem.broker.groups.group_configs import GroupConfigs
from mainstem.broker.groups.groups import Groups, TopicPlace
from mainstem.broker.groups.seeking import GroupSeeking
from mainstem.broker.groups.share_groups import ShareGroups
from mainstem.broker.groups.streams_groups import StreamsGroups
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.intake import UNWRITTEN_BYTES_MAX, Intake
from mainstem.broker.live.live import LiveNumbers
from mainstem.broker.pipelines.pipelines import Pipelines, table_pipelines
from mainstem.broker.queues.limits import QueueLimits
from mainstem.broker.queues.queues import Queues
from mainstem.broker.queues.settings import QueueSettings
from mainstem.broker.records.browsing import Records
from mainstem.broker.records.once import Once
from mainstem.broker.records.publication import Publications
from mainstem.broker.records.sequences import PublishedSequences
from mainstem.broker.requests import Requests
from mainstem.broker.routes import Routes
from mainstem.broker.schedules.delivery import BrokerDelivery
from mainstem.broker.schedules.recurrences import Recurrences
from mainstem.broker.schedules.schedules import Schedules
from mainstem.broker.schemas.decoding import Decoding
from mainstem.broker.schemas.schemas import Schemas
from mainstem.broker.schemas.validation import answer_from
from mainstem.broker.staging.limits import StageLimits
from mainstem.broker.staging.stages import Stages
from mainstem.broker.subscriptions.pulling import Pulling
from mainstem.broker.subscriptions.receipts import Receipts
from mainstem.broker.subscriptions.subscriptions import Subscriptions
from mainstem.broker.subscriptions.topic_subscriptions import TopicSubscriptions
from mainstem.broker.subscriptions.transacted import TransactedSettlements
from mainstem.broker.trace.chronicle import Chronicle
from mainstem.broker.trace.search import Search
from mainstem.broker.transactions.producers import Producers
from mainstem.broker.transactions.transactions import Transactions
from mainstem.broker.users.access import Access
from mainstem.broker.users.delegation import DelegationTokens
from mainstem.broker.users.door import Door
from mainstem.broker.users.logins import Logins
from mainstem.broker.users.sessions import Sessions
from mainstem.broker.users.takeover import take_over_scram_users
from mainstem.coordination.administration.policies import KIND_OF_QUEUE
from mainstem.coordination.catalog import catalog as catalogs
from mainstem.coordination.catalog.catalog import Catalog
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.coordination.queues.rules import rules_of
from mainstem.coordination.transactions import producer_ids
from mainstem.coordination.transactions.producer_ids import ProducerIds
from mainstem.model.speaking import SPEAKER
from mainstem.storage.contract import Engine

CLUSTER_NAME = "cluster_name"
"""The global parameter that names the broker."""
CLUSTER_NAME_KEY = ("", "", CLUSTER_NAME)


class Broker:
    """One broker over one engine. Open it with `Broker.open`."""

    term = 0
    """How often the log has changed hands; 0 where a broker stands alone."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        catalog: Catalog,
        ids: ProducerIds,
        settings: QueueSettings,
        unwritten_bytes_max: int,
        queue_limits: QueueLimits = QueueLimits(),  # noqa: B008
        stage_limits: StageLimits = StageLimits(),  # noqa: B008
    ) -> None:
        self.clock = clock
        self.chronicle = Chronicle(engine, clock)
        self.intake = Intake(engine, unwritten_bytes_max)
        self.heavy_work = HeavyWork()
        self.cluster_id = catalog.cluster_id
        self.topics = Topics(engine, catalog)
        self.producers = Producers(engine, ids)
        topology = CatalogTopology(catalog)
        configs = self.group_configs = GroupConfigs(engine)
        self.directed_groups = DirectedGroups(engine, clock, topology, configs.consumer_rules)
        self.streams_groups = StreamsGroups(engine, clock, topology, self.topics, configs.streams_rules)
        self.groups = Groups(engine, clock, catalog.by_id, self.directed_groups, self.streams_groups)
        self.groups.on_commit = self._group_committed
        self.dead_letters = RecordLetters(engine, clock, self.topics, self.heavy_work)
        subscriptions = Subscriptions(engine, clock, configs.rules, self.dead_letters)
        self.share_groups = ShareGroups(engine, clock, topology, configs, subscriptions, configs.share_rules)
        self.share_groups.is_taken = self.groups.__contains__
        self.group_seeking = GroupSeeking(engine, clock, self.topics, self.groups, self.share_groups)
        self._administer(engine, clock)
        self.routes = Routes(engine, self._alternate_by_policy)
        self.queues = Queues(
            engine,
            clock,
            self.topics,
            self.routes,
            settings,
            self.intake,
            self.heavy_work,
            queue_limits,
            self.chronicle,
        )
        self.queues.rules_for = self._rules_for
        self.policies.on_change.append(self._policies_changed)
        self.envelopes = self.queues.dead_letters.envelopes
        self.dialects = Dialects(self.envelopes)
        delivery = BrokerDelivery(
            clock,
            self.routes,
            lambda namespace, name: self.topics.named(namespace).get(name),
            self.queues.find,
            self.queues.outbox,
            self.envelopes,
        )
        self.topic_subscriptions = TopicSubscriptions(engine, self.topics, self.queues, self.dead_letters)
        self._read_in_many_ways(engine, clock)
        self.redrives = Redrives(engine, clock, self.queues)
        self.schedules = Schedules(engine, clock, self.queues.outbox, delivery)
        self.recurrences = Recurrences(engine, clock, delivery)
        self._watch_over(engine, clock, catalog)
        self.transactions = Transactions(engine, clock, self.producers, self.groups, catalog.by_id)
        self.client_quotas = ClientQuotas(engine)
        self.client_metrics = ClientMetrics(engine)
        self.acquisitions = Acquisitions(engine, clock, self.topics, self.share_groups, self.dead_letters, self.queues)
        self.stages = Stages(
            engine,
            clock,
            self.transactions,
            self.topics.named(),
            catalog.by_id,
            self.acquisitions,
            self.schedules,
            stage_limits,
        )
        self.pipelines = Pipelines(engine, clock)
        self.pipelines.origins.append(lambda: table_pipelines(self.topics))
        self.trace = Search(self)
        self.publish = self.publications.commit = self.chronicle.publish
        self.read = engine.read
        self.find = engine.offset_at
        self.watch = engine.watch
        self.trim = engine.trim

    def _administer(self, engine: Engine, clock: Clock) -> None:
        """What operators set, and who is let in."""
        self.administration = Administration(engine)
        self.namespaces = Namespaces(self.administration)
        self.access = Access(self.administration, self.namespaces, clock)
        self.logins = Logins(clock)
        self.delegation = DelegationTokens(self.administration, clock)
        self.door = Door(self.access, self.logins, clock, self.delegation)
        self.sessions = Sessions(self.administration, self.access, clock)
        self.parameters = Parameters(self.administration)
        self.policies = Policies(self.administration)

    def _read_in_many_ways(self, engine: Engine, clock: Clock) -> None:
        """What reads queues and topics besides the consumers of queues."""
        self.devices = Devices(engine, clock, self.topics, self.queues, self.routes)
        self.pulling = Pulling(clock, self.queues)
        self.receipts = Receipts(self.queues, self.pulling)
        self.transacted = TransactedSettlements(self.queues)
        self.letters = Letters(engine, self.queues)

    def _watch_over(self, engine: Engine, clock: Clock, catalog: Catalog) -> None:
        """What people look at: live numbers, single records and what they consist of, alarms."""
        self.schemas = Schemas(engine, clock, self.heavy_work)
        answer_from(catalog.registered, self.schemas)
        self.decoding = Decoding(self.schemas, self.heavy_work)
        self.live = LiveNumbers(engine, clock, self.topics)
        self.live.counters.append(lambda: {"failed_logins": float(self.logins.failures.total())})
        self.records = Records(engine, clock, self.heavy_work)
        self.sequences = PublishedSequences(engine, self.topics)
        self.publications = Publications(engine, clock, self.schedules, self.intake, self.heavy_work, Once(engine))
        self.requests = Requests(self.queues, self.publications, self.dialects)
        self.alarms = Alarms(engine, clock, self.topics, self.publications)

    @property
    def node(self) -> int:
        """The number of this broker among those that share the log."""
        return self.topics.node

    @property
    def cluster_name(self) -> str:
        """What administrators call it; its id, until they name it."""
        named = self.parameters.entries.get(CLUSTER_NAME_KEY)
        return self.cluster_id if named is None else str(named.value)

    def _group_committed(self, name: str, before: Mapping[TopicPlace, int], after: Mapping[TopicPlace, int]) -> None:
        """Who speaks has read so far."""
        who = SPEAKER.get()
        for place, offset in after.items() if who is not None else ():
            topic = self.topics.by_id.get(place.topic)
            if who is not None and topic is not None and place.partition < len(topic.logs):
                first = before.get(place, offset - 1)
                self.chronicle.note("c", topic.logs[place.partition], first, offset - 1, who, name)

    def _alternate_by_policy(self, namespace: str, exchange: str) -> str | None:
        alternate: str | None = self.policies.of(namespace).definition(exchange, "exchanges").get("alternate-exchange")
        return alternate

    def _rules_for(self, namespace: str, queue: str, properties: QueueProperties) -> QueueProperties:
        kind = KIND_OF_QUEUE[properties.kind]
        return rules_of(properties, self.policies.of(namespace).definition(queue, kind))

    def _policies_changed(self, namespace: str) -> None:
        self.routes.of(namespace).policies_changed()
        for queue in self.queues.all(namespace):
            self.queues.set_rules(queue, self._rules_for(namespace, queue.name, queue.properties))

    @classmethod
    async def open(
        cls,
        engine: Engine,
        clock: Clock,
        settings: QueueSettings = QueueSettings(),  # noqa: B008
        unwritten_bytes_max: int = UNWRITTEN_BYTES_MAX,
        queue_limits: QueueLimits = QueueLimits(),  # noqa: B008
        stage_limits: StageLimits = StageLimits(),  # noqa: B008
    ) -> Broker:
        """Load what is known, and found what must be there. Raises kinds of MainstemError."""
        catalog = Catalog()
        for key, value in (await engine.load(catalogs.SCOPE)).entries.items():
            catalog.replay(key, value)
        if not catalog.cluster_id:
            # As Kafka writes a cluster id: a random UUID in URL-safe base64 without padding.
            founding = catalog.decide_founding(base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode())
            await engine.alter((), founding)
            for mutation in founding:
                catalog.replay(mutation.key, mutation.value)
        ids = ProducerIds()
        for key, value in (await engine.load(producer_ids.SCOPE)).entries.items():
            ids.replay(key, value)
        broker = cls(engine, clock, catalog, ids, settings, unwritten_bytes_max, queue_limits, stage_limits)
        broker.term = engine.term
        await broker.chronicle.load()
        await broker.group_configs.load()
        await broker.directed_groups.load()
        await broker.streams_groups.load()
        await broker.groups.load()
        await broker.share_groups.load({log for topic in catalog.by_id.values() for log in topic.logs})
        await broker.transactions.load()
        await broker.client_quotas.load()
        await broker.client_metrics.load()
        await broker.stages.load()
        await broker.pipelines.load()
        await broker.schemas.load()
        await broker.administration.load()
        await take_over_scram_users(engine, broker.administration, broker.access)
        await broker.routes.load()
        await broker.queues.load()
        await broker.topic_subscriptions.load()
        await broker.devices.load()
        await broker.acquisitions.load()
        await broker.schedules.load()
        await broker.recurrences.load()
        await broker.publications.once.load()
        await broker.alarms.load()
        await broker.redrives.load()
        return broker

    async def close(self) -> None:
        """Begin nothing more, and store what was settled and is not stored yet. Raises kinds of MainstemError."""
        self.live.stop()
        self.schedules.stop()
        self.recurrences.stop()
        self.redrives.stop()
        self.heavy_work.close()
        self.door.close()
        self.devices.close()
        await self.queues.close()
