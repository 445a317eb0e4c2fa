"""Who did what: stretches, noted by the pass, written by the second, found by the message."""

import asyncio
from collections.abc import Sequence

from mainstem.broker.clock import LoopClock
from mainstem.broker.trace.chronicle import STRETCHES_MAX, TRACE_LOG, Chronicle, Did, TraceSettings
from mainstem.model.endpoints import Endpoints
from mainstem.model.peer import Peer
from mainstem.model.speaking import SPEAKER
from mainstem.storage.contract import Append, Commit, CreateLog, Edge
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import encode_batch
from mainstem.wire.record_batch.record import Record
from tests.support.worlds.brokers import with_engine

LOG = 7


class Connected:
    """A connection of somebody."""

    def __init__(self, number: int) -> None:
        self.id = f"kafka-{number}"
        self.protocol = "kafka"
        self.endpoints = Endpoints("10.0.0.7", 4000 + number)
        self.peer = Peer()
        self.peer.name = f"shop-{number}"
        self.peer.introduce("rdkafka", "2.16")


def chronicle_of(engine: MemoryEngine, settings: TraceSettings = TraceSettings()) -> Chronicle:  # noqa: B008
    chronicle = Chronicle(engine, LoopClock())
    chronicle.govern(settings)
    return chronicle


async def found(chronicle: Chronicle, offset: int) -> list[tuple[Did, str, str]]:
    async with asyncio.timeout(20):
        while chronicle.is_writing:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    deeds, is_complete = await chronicle.deeds(LOG, offset, 0)
    assert is_complete
    return [(deed.did, deed.name, deed.party.client) for deed in deeds]


def records(count: int) -> bytearray:
    return encode_batch([Record(number, 1, None, b"v") for number in range(count)])


@with_engine
async def test_what_somebody_publishes_is_noted_with_the_connection(engine: MemoryEngine) -> None:
    chronicle = chronicle_of(engine)
    await engine.alter([CreateLog(LOG)])
    for number in (1, 2):
        token = SPEAKER.set(Connected(number))
        await chronicle.publish([Commit(appends=[Append(LOG, records(3))])])
        SPEAKER.reset(token)
    await chronicle.publish([Commit(appends=[Append(LOG, records(1))])])  # nobody speaks
    assert await found(chronicle, 2) == [("p", "", "shop-1")]
    assert await found(chronicle, 3) == [("p", "", "shop-2")]
    assert await found(chronicle, 6) == []
    (deed,), _ = await chronicle.deeds(LOG, 0, 0)
    assert (deed.party.library, deed.party.version, deed.party.address) == ("rdkafka", "2.16", "10.0.0.7:4001")


@with_engine
async def test_stretches_that_follow_each_other_are_one_and_steps_are_kept(engine: MemoryEngine) -> None:
    chronicle = chronicle_of(engine)
    one, two = Connected(1), Connected(2)
    for first in range(0, 1000, 10):
        chronicle.note("c", LOG, first, first + 9, one, "g")
    chronicle.note("g", LOG, 0, 8, one, "q", step=2)
    chronicle.note("g", LOG, 1, 9, two, "q", step=2)
    assert await found(chronicle, 999) == [("c", "g", "shop-1")]
    assert await found(chronicle, 4) == [("c", "g", "shop-1"), ("g", "q", "shop-1")]
    assert await found(chronicle, 5) == [("c", "g", "shop-1"), ("g", "q", "shop-2")]
    end = (await engine.offset_at(TRACE_LOG, Edge.END)).offset
    assert end == 1


@with_engine
async def test_nothing_is_noted_when_it_is_switched_off_and_too_much_is_counted(engine: MemoryEngine) -> None:
    quiet = chronicle_of(engine, TraceSettings(retention_ms=0))
    quiet.note("c", LOG, 0, 1, Connected(1))
    assert not quiet.is_writing
    assert await found(quiet, 0) == []
    busy = chronicle_of(engine)
    who: Sequence[Connected] = [Connected(number) for number in range(2)]
    for number in range(STRETCHES_MAX + 10):
        busy.note("c", LOG, number * 2, number * 2, who[number % 2])
    assert busy.left_out == 10


@with_engine
async def test_it_is_there_after_a_restart(engine: MemoryEngine) -> None:
    chronicle = chronicle_of(engine)
    chronicle.note("c", LOG, 0, 1, Connected(1), "g")
    assert await found(chronicle, 1) == [("c", "g", "shop-1")]
    again = chronicle_of(engine, TraceSettings(retention_ms=3_600_000))
    await again.load()
    again.note("c", LOG, 2, 3, Connected(1), "g")
    assert await found(again, 1) == [("c", "g", "shop-1")]
    assert await found(again, 3) == [("c", "g", "shop-1")]
