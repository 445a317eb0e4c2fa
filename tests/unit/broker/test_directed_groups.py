"""Groups that the broker assigns, after a start."""

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.groups.directed_groups import JOINS, Beat
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.kafka_client import Operations
from tests.support.worlds.brokers import with_engine

SETTINGS = KafkaSettings(consumer_group_session_timeout_ms=50)


@with_engine
async def test_who_does_not_come_back_is_dropped_after_the_session_that_was_set(engine: MemoryEngine) -> None:
    """The groups are taken back before the settings are known."""
    broker = await Broker.open(engine, LoopClock())
    KafkaAdapter(KafkaSettings(), broker, Operations())
    await broker.topics.create([NewTopic("t", 2)])
    joined = await broker.groups.beat("g", Beat("one", JOINS, "", frozenset({"t"}), rebalance_timeout_ms=10_000))
    assert joined.share
    again = await Broker.open(engine, LoopClock())
    assert list(again.directed_groups.get("g").members) == ["one"]
    KafkaAdapter(SETTINGS, again, Operations())
    due_ms = again.directed_groups.get("g").next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= again.clock.monotonic() * 1000 + 50
