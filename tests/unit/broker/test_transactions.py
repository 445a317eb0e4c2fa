"""Transactions as the broker keeps them: in turn, over restarts, and when the log refuses."""

import asyncio
import uuid

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import (
    FencedProducer,
    StaleProducerEpoch,
    TransactionUnderWay,
    UnknownProducer,
    UnknownTransaction,
)
from mainstem.broker.groups.groups import CommittedOffset, TopicPlace
from mainstem.broker.log import Append, Committed
from mainstem.broker.transactions.transactions import Identity, TransactionRules, Transactions, TransactionState
from mainstem.model.errors import StorageFull
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.worlds.brokers import with_broker, with_engine

LONG_MS = 60_000


def batch(identity: Identity, sequence: int = 0) -> bytearray:
    return encode_batch(
        [Record(0, 1, None, b"v")],
        producer_id=identity.producer,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        transactional=True,
    )


async def write(broker: Broker, identity: Identity, log: int, sequence: int = 0, name: str = "tx") -> int:
    append = Append(log, batch(identity, sequence), first_sequence_zero=True)
    commit = broker.transactions.commit_for(name, identity, append, implicitly=True)
    (result,) = await broker.publish([commit])
    assert isinstance(result, Committed), result
    broker.transactions.confirm(name, commit)
    return result.bases[0]


async def ends(broker: Broker, log: int) -> tuple[int, int]:
    facts = await broker.read(log, 0, 0)
    return facts.stable, facts.end


@with_broker
async def test_a_batch_that_is_still_on_its_way_is_aborted_too(broker: Broker) -> None:
    topic = await broker.topics.ensure(NewTopic("t", 2))
    old = await broker.transactions.begin("tx", LONG_MS, None)
    commits = [
        broker.transactions.commit_for("tx", old, Append(log, batch(old)), implicitly=True) for log in topic.logs
    ]
    published = broker.publish(commits)
    assert not published.done
    new = await broker.transactions.begin("tx", LONG_MS, None)
    assert published.done
    assert new == Identity(old.producer, old.epoch + 1)
    assert [await ends(broker, log) for log in topic.logs] == [(2, 2)] * 2
    with pytest.raises(StaleProducerEpoch):
        await write(broker, old, topic.logs[0], 1)


@with_broker
async def test_nothing_comes_behind_an_end_that_is_on_its_way(broker: Broker) -> None:
    (log,) = (await broker.topics.ensure(NewTopic("t", 1))).logs
    identity = await broker.transactions.begin("tx", LONG_MS, None)
    await write(broker, identity, log)
    ending = asyncio.ensure_future(broker.transactions.end("tx", identity, commit=True, raises_epoch=False))
    await asyncio.sleep(0)
    with pytest.raises(TransactionUnderWay):
        await write(broker, identity, log, 1)
    await ending
    assert await ends(broker, log) == (2, 2)
    await write(broker, identity, log, 1)
    assert await ends(broker, log) == (2, 3)


@with_broker
async def test_who_asks_at_once_gets_epochs_of_their_own(broker: Broker) -> None:
    identities = await asyncio.gather(*(broker.transactions.begin("tx", LONG_MS, None) for _ in range(10)))
    assert sorted(identity.epoch for identity in identities) == list(range(10))
    assert len({identity.producer for identity in identities}) == 1


@with_engine
async def test_what_is_open_is_open_after_a_restart_and_ends_in_time(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    (log,) = (await first.topics.ensure(NewTopic("t", 1))).logs
    (other,) = (await first.topics.ensure(NewTopic("u", 1))).logs
    long = await first.transactions.begin("long", LONG_MS, None)
    await write(first, long, log, name="long")
    place = TopicPlace(uuid.UUID(int=1), 0)
    offset = {place: CommittedOffset(5, -1, "", 0)}
    await first.transactions.add_offsets("long", long, "g", offset, implicitly=True)
    short = await first.transactions.begin("short", 1, None)
    await write(first, short, other, name="short")
    second = await Broker.open(engine, LoopClock())
    assert second.transactions.get("long").logs == {log}
    assert second.transactions.pending("g") == {place}
    assert not second.transactions.pending("h")
    while (await ends(second, other))[0] < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert await ends(second, log) == (0, 1)
    await second.transactions.end("long", long, commit=True, raises_epoch=True)
    assert await ends(second, log) == (2, 2)
    assert not second.transactions.pending("g")
    assert second.groups.offsets("g") == offset
    third = await Broker.open(engine, LoopClock())
    assert third.groups.offsets("g") == offset, "in the same commit as the markers"
    entry = third.transactions.get("long").entry
    assert entry is not None
    assert (entry.state, entry.identity) == (TransactionState.COMMITTED, Identity(long.producer, 1))


@with_engine
async def test_an_end_that_the_log_refuses_can_be_asked_for_again(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    (log,) = (await broker.topics.ensure(NewTopic("t", 1))).logs
    identity = await broker.transactions.begin("tx", LONG_MS, None)
    await write(broker, identity, log)
    engine.ledger.full = True
    with pytest.raises(StorageFull):
        await broker.transactions.end("tx", identity, commit=True, raises_epoch=True)
    engine.ledger.full = False
    await write(broker, identity, log, 1)
    assert (await broker.transactions.end("tx", identity, commit=True, raises_epoch=True)).epoch == 1
    assert await ends(broker, log) == (3, 3)


@with_engine
async def test_names_that_nobody_uses_are_forgotten(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    (log,) = (await broker.topics.ensure(NewTopic("t", 1))).logs
    kept = Transactions(
        engine, LoopClock(), broker.producers, broker.groups, broker.topics.by_id, TransactionRules(name_expiry_ms=0)
    )
    for name in ("silent", "open"):
        identity = await kept.begin(name, LONG_MS, None)
    await kept.add("open", identity, [log])
    await kept.expire()
    assert [transaction.name for transaction in kept.known()] == ["open"]
    with pytest.raises(UnknownTransaction):
        kept.get("silent")
    reopened = await Broker.open(engine, LoopClock())
    assert [transaction.name for transaction in reopened.transactions.known()] == ["open"]


@with_broker
async def test_a_name_that_is_only_asked_about_is_not_remembered(broker: Broker) -> None:
    stranger = Identity(1, 0)
    with pytest.raises(UnknownProducer):
        await broker.transactions.end("nobody", stranger, commit=True, raises_epoch=True)
    with pytest.raises(UnknownProducer):
        await broker.transactions.add("nobody", stranger, [1])
    assert not broker.transactions._slots
    await broker.transactions.begin("tx", LONG_MS, None)
    with pytest.raises(FencedProducer):
        await broker.transactions.begin("tx", LONG_MS, Identity(1_000_000, 3))
