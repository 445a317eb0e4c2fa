"""Streams groups with the log and the topics behind them."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.groups.groups import CommittedOffset, TopicPlace
from mainstem.broker.groups.streams_groups import JOINS, StreamsBeat, Tasks
from mainstem.model.errors import Overloaded
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.kafka_client import Operations
from tests.support.worlds.applications import COUNTING
from tests.support.worlds.brokers import refuse_once, with_engine

SETTINGS = KafkaSettings(streams_group_initial_delay_ms=0, streams_group_assignment_interval_ms=0)


async def opened(engine: MemoryEngine, settings: KafkaSettings = SETTINGS) -> Broker:
    broker = await Broker.open(engine, LoopClock())
    KafkaAdapter(settings, broker, Operations())
    if "words" not in broker.topics.named():
        await broker.topics.create([NewTopic("words", 2)])
    return broker


def joins(member_id: str) -> StreamsBeat:
    return StreamsBeat(
        member_id, JOINS, rebalance_timeout_ms=10_000, topology=COUNTING, owned=Tasks(), process_id=member_id
    )


def leaves(member_id: str) -> StreamsBeat:
    return StreamsBeat(member_id, -1)


@with_engine
async def test_who_does_not_come_back_is_dropped_after_the_session_that_was_set(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    told = await broker.streams_groups.beat("g", joins("one"))
    assert told.tasks
    quick = KafkaSettings(streams_group_session_timeout_ms=50)
    again = await opened(engine, quick)
    group = again.streams_groups.get("g")
    assert group.members["one"].tasks == told.tasks
    due_ms = group.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= again.clock.monotonic() * 1000 + 50


@with_engine
async def test_what_cannot_be_stored_has_not_happened(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    groups = broker.streams_groups
    one = await groups.beat("g", joins("one"))
    refuse_once(engine)
    with pytest.raises(Overloaded):
        await groups.beat("g", joins("two"))
    assert set(groups.get("g").members) == {"one"}
    assert (await groups.beat("g", StreamsBeat("one", one.epoch))).epoch == one.epoch
    refuse_once(engine)
    with pytest.raises(Overloaded):
        await groups.beat("other", joins("one"))
    assert "other" not in groups


@with_engine
async def test_members_that_join_at_once_find_the_topics_that_one_of_them_made(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    told = await asyncio.gather(*(broker.streams_groups.beat("g", joins(f"m{number}")) for number in range(4)))
    assert all(answer.statuses == () for answer in told)
    assert set(broker.topics.named()) == {"words", "by-word", "counts"}
    assert len(broker.topics.get("counts").logs) == 2


@with_engine
async def test_groups_of_which_nothing_is_left_are_forgotten(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    for name in ("left", "used", "kept"):
        await broker.streams_groups.beat(name, joins("one"))
    for name in ("left", "kept"):
        await broker.streams_groups.beat(name, leaves("one"))
    place = TopicPlace(broker.topics.get("words").id, 0)
    await broker.groups.commit("kept", {place: CommittedOffset(1, 0, "", broker.clock.now_ms())})
    await broker.groups.expire_offsets()
    assert set(broker.groups.names()) == {"used", "kept"}
    again = await opened(engine)
    assert set(again.groups.names()) == {"used", "kept"}
    assert set(again.streams_groups.names()) == {"used", "kept"}
