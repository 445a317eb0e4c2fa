"""Who awaits an answer: woken by a waiter of ours where compiled, by a future of asyncio as Python."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from hypothesis import given
from hypothesis import strategies as st

from tests.support.both_ways import both_ways

CORES = both_ways("mainstem.storage.answer_core")

ANSWERS = 3
ANSWER = st.integers(0, ANSWERS - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("await"), ANSWER),
        st.tuples(st.just("callback"), ANSWER),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("resolve"), ANSWER),
        st.tuples(st.just("fail"), ANSWER),
        st.tuples(st.just("resolve all"), st.lists(ANSWER, unique=True)),
        st.tuples(st.just("turn"), st.just(0)),
    ),
    max_size=25,
)
asking: ContextVar[int] = ContextVar("asking")


class World:
    """Tasks that await answers, one way; writes down who was woken, with what, in which order."""

    def __init__(self, core, loop_known: bool) -> None:
        self.core = core
        self.answers = [core.AnswerCore() for _ in range(ANSWERS)]
        self.tasks: list[asyncio.Task[None]] = []
        self.told: list[object] = []
        if loop_known:
            for answer in self.answers:
                answer.loop = asyncio.get_running_loop()

    async def wait(self, task: int, answer: int) -> None:
        asking.set(task)
        try:
            value = await self.answers[answer]
        except asyncio.CancelledError as cancelled:
            self.told.append(("cancelled", asking.get(), cancelled.args))
        except ValueError as error:
            self.told.append(("failed", asking.get(), str(error)))
        else:
            self.told.append(("answered", asking.get(), value))

    def called(self, answer) -> None:
        number = self.answers.index(answer)
        self.told.append(("called", number, str(answer.error) if answer.error else answer.result()))
        if number == 1:
            raise ValueError("a bug of the caller")

    async def step(self, name: str, argument) -> None:
        open_answers = [number for number, answer in enumerate(self.answers) if not answer.done]
        if name == "await":
            self.tasks.append(asyncio.create_task(self.wait(len(self.tasks), argument)))
        elif name == "callback":
            if argument in open_answers:
                self.answers[argument].on_done(self.called)
        elif name == "cancel":
            if argument < len(self.tasks):
                self.told.append(self.tasks[argument].cancel("enough"))
        elif name == "resolve all":
            self.core.resolve_all([(self.answers[n], f"value {n}") for n in argument if n in open_answers])
        elif name == "turn":
            for _ in range(4):
                await asyncio.sleep(0)
        elif argument in open_answers:
            answer = self.answers[argument]
            answer.resolve(f"value {argument}") if name == "resolve" else answer.fail(ValueError(f"no {argument}"))

    async def end(self) -> None:
        for number, answer in enumerate(self.answers):
            if not answer.done:
                answer.resolve(f"value {number}")
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def play(core, steps, loop_known: bool) -> list[object]:
    world = World(core, loop_known)
    for name, argument in steps:
        await world.step(name, argument)
    await world.end()
    assert all(task.done() for task in world.tasks)
    return world.told


@given(STEPS, st.booleans())
def test_everybody_is_woken_with_the_same(steps, loop_known):
    told = []
    for core in CORES:
        with asyncio.Runner() as runner:
            told.append(runner.run(play(core, steps, loop_known)))
    # Of one turn, tasks may be woken in another order: by the answer, or by when they asked.
    compiled, python = (sorted(each, key=repr) for each in told)
    assert compiled == python
