"""Watches: told once per durable group, of what moved, for as long as they last."""

from __future__ import annotations

import asyncio

import pytest

from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import Append, Commit, CreateLog, DeleteLog, LogEnd, Mutation, Refer
from tests.support.storage.batches import batch, marker, produced

SENTINEL = 999


class Listener:
    """Keeps what it is told; can be waited for."""

    def __init__(self, engine):
        self.calls = []
        self.busy = False
        self._engine = engine
        self._moved = asyncio.Event()
        self.watch = engine.watch(self.told)

    def told(self, moved):
        assert not self.busy, "called from within a call of the owner"
        assert moved, "called with nothing"
        self.calls.append(dict(moved))
        self._moved.set()

    async def until(self, log, end):
        """Wait until the log was reported to end there."""
        async with asyncio.timeout(10):
            while not any(call[log].end == end for call in self.calls if log in call):
                self._moved.clear()
                await self._moved.wait()

    async def settled(self):
        """Wait until everything so far was reported: a log of our own is the last."""
        if SENTINEL not in self._engine_logs():
            await self._engine.create(SENTINEL)
        end = self.watch.add(SENTINEL).end
        await self._engine.append(SENTINEL, batch(b"sentinel"))
        await self.until(SENTINEL, end + 1)
        self.watch.remove(SENTINEL)
        return [call for call in self.calls if set(call) != {SENTINEL}]

    def _engine_logs(self):
        try:
            self._engine.end(SENTINEL)
        except UnknownLog:
            return ()
        return (SENTINEL,)


async def test_adding_a_log_tells_where_it_ends(engine):
    await engine.create(1, 2)
    await engine.append(1, batch(b"a", b"b"), produced(7, 0, transactional=True))
    listener = Listener(engine)
    assert listener.watch.add(1) == LogEnd(3, 2)
    assert listener.watch.add(2) == LogEnd(0, 0)
    assert listener.watch.add(1) == LogEnd(3, 2)
    listener.watch.close()


async def test_an_unknown_log_cannot_be_added(engine):
    listener = Listener(engine)
    with pytest.raises(UnknownLog):
        listener.watch.add(1)
    await engine.create(1)
    assert listener.watch.add(1) == LogEnd(0, 0)


async def test_removing_what_was_never_added_is_ignored(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.remove(1)
    listener.watch.remove(77)


async def test_one_commit_is_one_call(engine):
    await engine.create(1, 2, 3, 4)
    listener = Listener(engine)
    for log in (1, 2, 3):
        listener.watch.add(log)
    await engine.commit_one(
        Commit(appends=[Append(log, batch(b"x")) for log in (3, 1, 4, 1, 2)], state=[Mutation("s", b"k", b"v")])
    )
    assert await listener.settled() == [{1: LogEnd(2, 2), 2: LogEnd(1, 1), 3: LogEnd(1, 1)}]


async def test_it_lasts(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    for n in range(20):
        await engine.append(1, batch(b"x"))
        await listener.until(1, n + 1)
    assert await listener.settled() == [{1: LogEnd(n + 1, n + 1)} for n in range(20)]


async def test_every_end_is_reported_in_order(engine):
    """However the calls are grouped: ends grow, and the last one is the end."""
    await engine.create(1, 2)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.add(2)
    answers = [engine.commit([Commit(appends=[Append(1 + n % 2, batch(b"x"))])]) for n in range(200)]
    for answer in answers:
        await answer
    calls = await listener.settled()
    for log in (1, 2):
        ends = [call[log].end for call in calls if log in call]
        assert ends == sorted(set(ends))
        assert ends[-1] == 100


async def test_what_is_reported_can_be_read(engine):
    await engine.create(1)
    seen = []

    def told(moved):
        seen.append((moved[1].end, engine.read(1, 0, 1 << 20)))

    watch = engine.watch(told)
    watch.add(1)
    for _ in range(10):
        await engine.append(1, batch(b"x"))
    await engine.turns()
    assert seen
    for end, answer in seen:
        assert (await answer).end >= end
    watch.close()


async def test_only_the_logs_that_moved(engine):
    await engine.create(1, 2)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.add(2)
    await engine.append(2, batch(b"x"))
    assert await listener.settled() == [{2: LogEnd(1, 1)}]


async def test_nothing_moved_is_no_call(engine):
    await engine.create(1, 2)
    await engine.append(1, produced(7, 0), batch(b"x"))
    listener = Listener(engine)
    listener.watch.add(1)
    await engine.append(2, batch(b"not watched"))
    await engine.put("s", k=b"v")
    await engine.commit([Commit(), Commit(appends=[Append(1, b"bad")]), Commit(appends=[Append(1, produced(7, 0))])])
    await engine.trim(1, 1)
    await engine.settle()
    assert await listener.settled() == []


async def test_the_stable_end_is_reported_beside_the_end(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    for content in (
        batch(b"a"),
        produced(7, 0, transactional=True),
        batch(b"b"),
        produced(8, 0, transactional=True),
        marker(7, commit=True),
        marker(8, commit=False),
    ):
        await engine.append(1, content)
    calls = await listener.settled()
    assert calls == [{1: LogEnd(*ends)} for ends in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 3), (6, 6)]]


async def test_references_move_their_log(engine):
    await engine.create(1, 2)
    listener = Listener(engine)
    listener.watch.add(2)
    await engine.commit_one(Commit(appends=[Append(1, batch(b"a", b"b"))], refers=[Refer(2, 0)]))
    assert await listener.settled() == [{2: LogEnd(2, 2)}]


async def test_a_deleted_log_is_reported_once_and_let_go(engine):
    await engine.create(1, 2)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.add(2)
    await engine.alter([DeleteLog(1)])
    await engine.append(2, batch(b"x"))
    calls = await listener.settled()
    assert [{log: ends.end for log, ends in call.items()} for call in calls] == [{1: -1}, {2: 1}]
    with pytest.raises(UnknownLog):
        listener.watch.add(1)
    listener.watch.remove(1)


async def test_a_log_that_grows_and_goes_in_one_group(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    engine.commit([Commit(appends=[Append(1, batch(b"x"))])])
    await engine.commit([Commit(changes=[DeleteLog(1)])])
    calls = await listener.settled()
    assert calls[-1][1].end == -1


async def test_a_removed_log_is_not_reported(engine):
    await engine.create(1, 2)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.add(2)
    listener.watch.remove(1)
    await engine.commit_one(Commit(appends=[Append(1, batch(b"x")), Append(2, batch(b"x"))]))
    assert await listener.settled() == [{2: LogEnd(1, 1)}]


async def test_a_log_removed_and_added_again(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.remove(1)
    await engine.append(1, batch(b"x"))
    assert listener.watch.add(1) == LogEnd(1, 1)
    await engine.append(1, batch(b"x"))
    assert await listener.settled() == [{1: LogEnd(2, 2)}]


async def test_a_log_added_twice_is_reported_once_and_removed_once(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    listener.watch.add(1)
    await engine.append(1, batch(b"x"))
    assert await listener.settled() == [{1: LogEnd(1, 1)}]
    listener.watch.remove(1)
    await engine.append(1, batch(b"x"))
    assert await listener.settled() == [{1: LogEnd(1, 1)}]


async def test_a_closed_watch_is_not_called(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.add(1)
    answer = engine.commit([Commit(appends=[Append(1, batch(b"x"))])])
    listener.watch.close()
    await answer
    await engine.append(1, batch(b"x"))
    await engine.turns()
    assert listener.calls == []
    listener.watch.close()


async def test_a_log_added_to_a_closed_watch_is_not_reported(engine):
    await engine.create(1)
    listener = Listener(engine)
    listener.watch.close()
    assert listener.watch.add(1) == LogEnd(0, 0)
    await engine.append(1, batch(b"x"))
    await engine.turns()
    assert listener.calls == []


async def test_watches_are_independent(engine):
    await engine.create(1)
    listeners = [Listener(engine) for _ in range(3)]
    for listener in listeners:
        listener.watch.add(1)
    listeners[1].watch.close()
    await engine.append(1, batch(b"x"))
    await listeners[0].until(1, 1)
    await listeners[2].until(1, 1)
    assert listeners[1].calls == []


async def test_it_is_never_called_from_within_a_call_of_its_owner(engine):
    await engine.create(1)
    listener = Listener(engine)
    calls = [
        lambda: listener.watch.add(1),
        lambda: engine.commit([Commit(appends=[Append(1, batch(b"x"))])]),
        lambda: engine.alter([CreateLog(5)]),
        lambda: engine.trim(1, 1),
        lambda: engine.load("s"),
        lambda: engine.read(1, 0, 100),
        lambda: listener.watch.remove(1),
        lambda: listener.watch.add(1),
        lambda: engine.alter([DeleteLog(1)]),
        lambda: listener.watch.close(),
    ]
    for call in calls:
        for _ in range(2):
            listener.busy = True
            try:
                call()
            except UnknownLog:
                pass
            finally:
                listener.busy = False
        await engine.turns()


async def test_the_callback_may_use_the_engine_and_its_own_handle(engine):
    """An echo: whatever comes into log 1 is followed by one batch in log 2, until it has enough."""
    await engine.create(1, 2)
    done = asyncio.Event()
    echoed = []

    def told(moved):
        if 1 in moved:
            echoed.append(moved[1].end)
            engine.commit([Commit(appends=[Append(2, batch(b"echo"))])])
            if len(echoed) == 5:
                watch.remove(1)
                watch.add(2)
        else:
            watch.close()
            done.set()

    watch = engine.watch(told)
    watch.add(1)
    for _ in range(8):
        await engine.append(1, batch(b"x"))
    async with asyncio.timeout(10):
        await done.wait()
    assert len(echoed) == 5
    assert engine.end(2) == 5


async def test_a_handle_closed_by_another_callback_is_not_called(engine):
    await engine.create(1)
    calls = []
    handles = []

    def told(number):
        calls.append(number)
        handles[1 - number].close()

    for number in range(2):
        handles.append(engine.watch(lambda _, number=number: told(number)))
        handles[number].add(1)
    await engine.append(1, batch(b"x"))
    await engine.turns()
    assert len(calls) == 1


async def test_many_logs_in_one_handle(engine):
    logs = range(1, 501)
    await engine.create(*logs)
    listener = Listener(engine)
    for log in logs:
        listener.watch.add(log)
    await engine.commit_one(Commit(appends=[Append(log, batch(b"x")) for log in logs]))
    assert await listener.settled() == [dict.fromkeys(logs, LogEnd(1, 1))]
    listener.watch.close()
