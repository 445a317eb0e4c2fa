"""An answer is complete once, wakes everyone who asked, in order, and nobody's giving up disturbs the others."""

from __future__ import annotations

import asyncio

import pytest

from mainstem.storage.answer import Answer


def run(coroutine):
    with asyncio.Runner() as runner:
        return runner.run(coroutine)


def await_without_a_loop(answer):
    """Drive `await answer` by hand: anything that has to wait would need an event loop."""
    steps = answer.__await__()
    with pytest.raises(StopIteration) as stop:
        next(steps)
    return stop.value.value


def test_a_complete_answer_is_awaited_without_an_event_loop():
    assert await_without_a_loop(Answer.of(7)) == 7


def test_none_and_false_are_values_too():
    assert Answer.of(None).result() is None
    assert Answer.of(False).result() is False
    assert Answer.of(None).error is None


def test_a_failed_answer_raises_its_own_error_again_and_again():
    error = ValueError("no")
    answer = Answer.failed(error)
    assert answer.done
    assert answer.error is error
    for _ in range(2):
        with pytest.raises(ValueError, match="no") as raised:
            answer.result()
        assert raised.value is error


def test_awaiting_a_failed_answer_raises():
    async def main():
        with pytest.raises(ValueError, match="no"):
            await Answer.failed(ValueError("no"))

    run(main())


def test_the_result_cannot_be_taken_before_it_is_there():
    with pytest.raises(AssertionError):
        Answer().result()


@pytest.mark.parametrize("first", ["resolve", "fail"])
@pytest.mark.parametrize("second", ["resolve", "fail"])
def test_an_answer_is_completed_once(first, second):
    def complete(how):
        if how == "resolve":
            answer.resolve(1)
        else:
            answer.fail(ValueError())

    answer = Answer()
    complete(first)
    with pytest.raises(AssertionError):
        complete(second)


def test_callbacks_come_in_the_order_they_were_added_with_the_answer_done():
    answer = Answer()
    calls = []
    for name in "abc":
        answer.on_done(lambda done, name=name: calls.append((name, done is answer, done.done, done.result())))
    assert calls == []
    answer.resolve(5)
    assert calls == [("a", True, True, 5), ("b", True, True, 5), ("c", True, True, 5)]


def test_a_late_callback_comes_at_once_and_only_once():
    answer = Answer()
    calls = []
    answer.on_done(lambda _: calls.append("early"))
    answer.resolve(None)
    answer.on_done(lambda _: calls.append("late"))
    assert calls == ["early", "late"]


def test_a_callback_added_by_a_callback_is_called():
    answer = Answer()
    calls = []
    answer.on_done(lambda done: done.on_done(lambda _: calls.append("inner")))
    answer.on_done(lambda _: calls.append("outer"))
    answer.resolve(None)
    assert sorted(calls) == ["inner", "outer"]


def test_callbacks_hear_of_errors_too():
    answer = Answer()
    heard = []
    answer.on_done(lambda done: heard.append(done.error))
    error = OSError("disk")
    answer.fail(error)
    assert heard == [error]


def test_all_waiters_are_woken_in_order():
    async def main():
        answer = Answer()
        woken = []

        async def wait(name):
            woken.append((name, await answer))

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(wait(name))
            await asyncio.sleep(0)
            assert woken == []
            answer.resolve(3)
        assert woken == [("a", 3), ("b", 3), ("c", 3)]

    run(main())


def test_one_waiter_giving_up_does_not_disturb_the_others():
    async def main():
        answer = Answer()

        async def wait():
            return await answer

        tasks = [asyncio.ensure_future(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert not answer.done
        answer.resolve("here")
        assert await tasks[0] == await tasks[2] == "here"
        assert await answer == "here"

    run(main())


def test_a_waiter_that_gave_up_may_ask_again():
    async def main():
        answer = Answer()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await answer
        asyncio.get_running_loop().call_soon(answer.resolve, 9)
        assert await answer == 9

    run(main())


def test_every_waiter_gets_the_error():
    async def main():
        answer = Answer()

        async def wait():
            await answer

        tasks = [asyncio.ensure_future(wait()) for _ in range(2)]
        await asyncio.sleep(0)
        answer.fail(OSError("disk"))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [OSError, OSError]

    run(main())


def test_who_cancels_may_say_why():
    async def main():
        async def wait():
            await Answer()

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert raised.value.args == ("enough",)

    run(main())


def test_a_task_cancelled_after_the_answer_came_is_cancelled_once():
    async def main():
        answer = Answer()

        async def wait():
            await answer

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        answer.resolve(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_answers_that_come_together_wake_everyone_in_order_in_a_later_turn():
    async def main():
        answers = [Answer() for _ in range(5)]
        woken = []

        async def wait(number):
            woken.append(await answers[number])
            if number == 1:
                raise ValueError("a bug of this one")

        tasks = [asyncio.ensure_future(wait(number)) for number in range(5)]
        await asyncio.sleep(0)
        for number, answer in enumerate(answers):
            answer.resolve(number)
        assert woken == []
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert woken == [0, 1, 2, 3, 4]
        assert [type(outcome) for outcome in outcomes].count(ValueError) == 1

    run(main())


def test_a_woken_task_may_await_the_next_answer():
    async def main():
        answers = [Answer() for _ in range(50)]

        async def wait():
            return [await answer for answer in answers]

        async def resolve():
            for number, answer in enumerate(answers):
                answer.resolve(number)
                if number % 3 == 0:
                    await asyncio.sleep(0)

        tasks = [asyncio.ensure_future(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        await resolve()
        assert await asyncio.gather(*tasks) == [list(range(50))] * 3

    run(main())


def test_a_loop_that_ended_early_does_not_keep_the_next_one_waiting():
    async def left_behind():
        answer = Answer()

        async def wait():
            await answer

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        answer.resolve(None)  # woken in a turn that only the end of the loop brings
        return task

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(left_behind())
    loop.run_until_complete(task)
    loop.close()

    async def main():
        answer = Answer()
        asyncio.get_running_loop().call_soon(answer.resolve, "here")
        return await answer

    assert run(main()) == "here"


def test_an_answer_may_be_a_tuple_or_an_exception():
    async def main():
        for value in ((1, 2), (), ValueError("a value"), StopIteration(3)):
            answer = Answer()
            asyncio.get_running_loop().call_soon(answer.resolve, value)
            assert await answer is value
            assert await answer is value

    run(main())


def test_the_context_of_a_waiting_task_is_kept():
    from contextvars import ContextVar

    name = ContextVar("name")

    async def main():
        answer = Answer()

        async def wait(own):
            name.set(own)
            await answer
            return name.get()

        tasks = [asyncio.ensure_future(wait(own)) for own in "ab"]
        await asyncio.sleep(0)
        name.set("the resolver")
        answer.resolve(None)
        assert await asyncio.gather(*tasks) == ["a", "b"]

    run(main())
