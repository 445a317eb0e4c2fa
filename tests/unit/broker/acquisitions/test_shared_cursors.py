"""A share group and an acquisition of one subscription: a commit of one may carry what the other has changed."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.record_letters import RecordLetters
from mainstem.broker.errors import UnknownGroup, UnsuitableSource
from mainstem.broker.subscriptions.subscriptions import LeaseVerdict, Ruling
from mainstem.coordination.groups.group_offsets import CommittedOffset, TopicPlace
from mainstem.model.errors import StorageFull
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CommitResult
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine
from tests.unit.broker.holding import acquire, produce, shared, topic


class Gate:
    """A caller waits until it is opened; it is known that somebody has come."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_acknowledgement_in_the_commit_of_another_waits_for_it(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share member accepts one record and rejects another: while its dead letter is written, a settlement takes the
    accepted one along. It is answered when that is durable; where that commit is refused, it stores it itself."""
    letter, settlement = Gate(), Gate()
    write = RecordLetters.of_records

    async def slow(self: RecordLetters, *given: object) -> list[Append]:
        await letter.passed()
        return await write(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordLetters, "of_records", slow)

    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock())
        (log,) = await topic(broker, "t")
        await produce(broker, log, b"a", b"b", b"c", b"d")
        assert await acquire(broker, "g", 0, topics=["t"]) is None
        assert await shared(broker, "g", log, 2) == [(0, 1, 1)]
        one = await acquire(broker, "g", topics=["t"])
        assert one is not None
        await broker.acquisitions.pin(one.id)
        rulings = {log: [Ruling(0, 0, LeaseVerdict.ACCEPT), Ruling(1, 1, LeaseVerdict.REJECT)]}
        subscriptions = broker.share_groups.subscriptions
        acknowledging = asyncio.create_task(subscriptions.rule("g", "member", rulings))
        await letter.reached.wait()
        hold_first_commit(monkeypatch, engine, settlement, StorageFull("no room") if is_refused else None)
        settling = asyncio.create_task(broker.acquisitions.settle(one.id))
        await settlement.reached.wait()
        letter.opened.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not acknowledging.done()
        settlement.opened.set()
        assert await acknowledging == {}
        if is_refused:
            with pytest.raises(StorageFull):
                await settling
        else:
            await settling
        # after a restart the answer holds
        again = await Broker.open(engine, LoopClock())
        assert again.share_groups.subscriptions.cursors("g")[log].floor == (2 if is_refused else 4)

    run()


def hold_first_commit(
    monkeypatch: pytest.MonkeyPatch, engine: MemoryEngine, gate: Gate, refusal: StorageFull | None
) -> None:
    """Its answer comes when the gate is opened: that it is durable, or that it is refused."""
    commit = engine.commit

    def held(commits: list[Commit]) -> Answer[list[CommitResult]]:
        monkeypatch.setattr(engine, "commit", commit)
        answer: Answer[list[CommitResult]] = Answer()
        made = None if refusal is not None else commit(commits)

        async def answered() -> None:
            await gate.passed()
            answer.resolve([refusal] * len(commits) if refusal is not None else await made)  # type: ignore[arg-type, misc]

        gate.task = asyncio.create_task(answered())
        return answer

    monkeypatch.setattr(engine, "commit", held)


@with_broker
async def test_a_consumer_group_of_that_name_is_not_shared(broker: Broker) -> None:
    """As Kafka's brokers: a name is of one kind of group."""
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a")
    place = TopicPlace(broker.topics.get("t").id, 0)
    await broker.groups.commit("g", {place: CommittedOffset(0, -1, "", 0)})
    with pytest.raises(UnsuitableSource, match="g is a consumer group"):
        await acquire(broker, "g", topics=["t"])
    with pytest.raises(UnknownGroup, match="Group g is not a share group"):
        await broker.share_groups.ensure("g")
    await broker.groups.delete("g")
    assert await acquire(broker, "g", topics=["t"]) is not None
