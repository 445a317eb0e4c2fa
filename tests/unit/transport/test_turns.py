"""Connections take turns: each works for a while, in the order in which they asked."""

import asyncio
from collections.abc import Callable

from mainstem.transport.turns import TURN_SECONDS, Turns


class Worker:
    """Has pieces of work, each of which takes some time."""

    def __init__(self, name: str, pieces: int, day: "Day") -> None:
        self.name = name
        self.pieces = pieces
        self._day = day

    def start(self) -> None:
        if self._day.turns.may_work(self):
            self.take_turn()

    def take_turn(self) -> None:
        while self.pieces:
            self.pieces -= 1
            self._day.now += self._day.piece_seconds
            self._day.worked.append(self.name)
            if self._day.turns.is_over():
                self._day.turns.wait(self)
                return


class Day:
    """Time that passes only by work."""

    def __init__(self, piece_seconds: float) -> None:
        self.now = 1000.0
        self.piece_seconds = piece_seconds
        self.worked: list[str] = []
        self.turns = Turns(lambda: self.now)


def in_loop(test: Callable[[], None], turns: int = 1_000) -> None:
    async def main() -> None:
        test()
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(main())


def test_one_alone_works_until_it_is_done() -> None:
    day = Day(TURN_SECONDS / 4)
    in_loop(Worker("a", 20, day).start)
    assert day.worked == ["a"] * 20


def test_those_that_wait_go_on_in_the_order_in_which_they_came() -> None:
    day = Day(TURN_SECONDS)
    workers = [Worker(name, 3, day) for name in "abc"]
    in_loop(lambda: [worker.start() for worker in workers] and None)
    assert day.worked == list("aabcabcbc")


def test_nobody_overtakes_those_in_line() -> None:
    day = Day(TURN_SECONDS)
    first, second, late = Worker("first", 2, day), Worker("second", 1, day), Worker("late", 1, day)

    def test() -> None:
        first.start()
        second.start()
        day.now += 10  # a turn would have begun by now, were nobody in line
        late.start()

    in_loop(test)
    assert day.worked == ["first", "first", "second", "late"] or day.worked == ["first", "second", "first", "late"]
    assert day.worked[-1] == "late"


def test_timers_come_between_two_turns() -> None:
    day = Day(TURN_SECONDS)
    seen: list[int] = []

    def test() -> None:
        asyncio.get_running_loop().call_soon(lambda: seen.append(len(day.worked)))
        Worker("a", 50, day).start()

    in_loop(test)
    assert seen == [1], "the loop looked at others after the first turn"


def test_who_leaves_is_not_called() -> None:
    day = Day(TURN_SECONDS)
    first, gone = Worker("first", 1, day), Worker("gone", 1, day)

    def test() -> None:
        first.start()
        gone.start()
        day.turns.leave(gone)

    in_loop(test)
    assert day.worked == ["first"]


def test_delays_are_measured_while_somebody_works() -> None:
    async def main() -> Turns:
        turns = Turns()
        day = Day(0)
        worker = Worker("a", 0, day)
        assert turns.may_work(worker)
        import time

        time.sleep(0.05)  # noqa: ASYNC251 - a callback that takes too long is what is measured
        await asyncio.sleep(0.05)
        return turns

    turns = asyncio.run(main())
    assert sum(turns.delays.counts) == 1
    assert turns.delays.max_s >= 0.03
