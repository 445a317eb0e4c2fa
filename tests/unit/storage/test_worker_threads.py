"""A lane of several threads: all of them work when there is enough to do, and few when there is little."""

from __future__ import annotations

import asyncio
import threading

from mainstem.storage.runtime.async_runtime import WorkerThreads

THREADS = 4
SECONDS_MAX = 10


def run(body) -> None:
    async def main() -> None:
        lane = WorkerThreads(asyncio.get_running_loop(), "lane", THREADS)
        try:
            await asyncio.wait_for(body(lane), SECONDS_MAX)
        finally:
            lane.close(SECONDS_MAX)
        assert not any(thread.is_alive() for thread in lane._threads)

    asyncio.run(main())


def put(lane: WorkerThreads, job) -> asyncio.Future:
    future = asyncio.get_running_loop().create_future()

    def done(value, error) -> None:
        future.set_result(value) if error is None else future.set_exception(error)

    lane.put(job, done)
    return future


def test_one_job_after_the_other_wakes_no_thread_but_the_last() -> None:
    async def body(lane: WorkerThreads) -> None:
        # All of them have had something to do.
        meeting = threading.Barrier(THREADS)
        await asyncio.gather(*(put(lane, lambda: meeting.wait(SECONDS_MAX)) for _ in range(THREADS)))
        names = set()
        for _ in range(20):
            while len(lane._resting) < THREADS:  # noqa: ASYNC110 - a thread that rests tells nobody
                await asyncio.sleep(0)
            names.add(await put(lane, lambda: threading.current_thread().name))
        assert len(names) == 1

    run(body)


def test_jobs_for_which_no_thread_is_free_come_in_their_order() -> None:
    async def body(lane: WorkerThreads) -> None:
        held = threading.Event()
        began: list[int] = []
        first = [put(lane, lambda: held.wait(SECONDS_MAX)) for _ in range(THREADS)]
        rest = [put(lane, lambda number=number: began.append(number)) for number in range(100)]
        held.set()
        await asyncio.gather(*first, *rest)
        assert sorted(began) == list(range(100))
        # Each is begun after those before it; two threads may note what they began the other way round.
        assert all(abs(place - number) < THREADS for place, number in enumerate(began))

    run(body)


def test_what_was_put_is_done_before_it_ends() -> None:
    done: list[int] = []

    async def body(lane: WorkerThreads) -> None:
        for number in range(200):
            lane.put(lambda number=number: done.append(number), lambda value, error: None)

    run(body)
    assert sorted(done) == list(range(200))


def test_an_error_is_told_and_the_thread_goes_on() -> None:
    async def body(lane: WorkerThreads) -> None:
        def fail() -> None:
            raise ValueError("no")

        results = await asyncio.gather(*(put(lane, fail) for _ in range(3 * THREADS)), return_exceptions=True)
        assert all(isinstance(result, ValueError) for result in results)
        assert await put(lane, lambda: 7) == 7

    run(body)
