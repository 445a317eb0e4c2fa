"""The simulated runtime: the orders it may show, and those it may not."""

from __future__ import annotations

from random import Random

import pytest

from mainstem.testing.disk import PowerLoss
from mainstem.testing.runtime import SimulatedRuntime, Stuck

SEEDS = 40


def run(seed: int) -> list[str]:
    runtime = SimulatedRuntime(Random(seed), run_merge=lambda job: job.upper())
    events: list[str] = []

    def done(name: str) -> object:
        return lambda value, error: events.append(f"{name} done {value or error}")

    for number in range(3):
        runtime.call_soon(lambda number=number: events.append(f"soon {number}"))  # type: ignore[misc]
        runtime.write(lambda number=number: events.append(f"write {number}") or number, done(f"write {number}"))  # type: ignore
        runtime.read(lambda number=number: events.append(f"read {number}") or number, done(f"read {number}"))  # type: ignore
    runtime.merge(b"job", done("merge"))  # type: ignore[arg-type]
    runtime.call_later(0.5, lambda: events.append("timer"))
    runtime.run_until(lambda: len(events) == 17)
    return events


def test_a_seed_is_a_history() -> None:
    for seed in range(SEEDS):
        assert run(seed) == run(seed)
    assert len({tuple(run(seed)) for seed in range(SEEDS)}) > SEEDS // 2


def test_turns_and_writes_keep_their_order() -> None:
    for seed in range(SEEDS):
        events = run(seed)
        for kind in ("soon", "write"):
            started = [event for event in events if event.startswith(kind) and "done" not in event]
            assert started == [f"{kind} 0", f"{kind} 1", f"{kind} 2"]
        completed = [event[:7] for event in events if event.startswith("write") and "done" in event]
        assert completed == ["write 0", "write 1", "write 2"]
        for number in range(3):
            place = next(i for i, event in enumerate(events) if event.startswith(f"write {number} done"))
            assert events.index(f"write {number}") < place


def test_rare_orders_happen() -> None:
    histories = [run(seed) for seed in range(SEEDS)]
    assert any(h.index("read 2") < h.index("read 0") for h in histories)
    assert any(h.index("write 1") < h.index("write 0 done None") for h in histories if "write 0 done None" in h)
    assert any(h.index("write 2") < h.index("soon 0") for h in histories)


def test_errors_are_delivered_and_interruptions_are_not() -> None:
    runtime = SimulatedRuntime(Random(0))
    caught: list[BaseException | None] = []

    def fail() -> None:
        raise OSError("no")

    def stop() -> None:
        raise PowerLoss

    runtime.write(fail, lambda _, error: caught.append(error))
    runtime.run_until(lambda: bool(caught))
    assert isinstance(caught[0], OSError)
    runtime.write(stop, lambda _, error: caught.append(error))
    with pytest.raises(PowerLoss):
        runtime.run_until(lambda: len(caught) > 1)


def test_timers_wait_for_the_clock_and_can_be_cancelled() -> None:
    runtime = SimulatedRuntime(Random(0))
    events: list[str] = []
    runtime.call_later(2.0, lambda: events.append("late"))
    runtime.call_later(1.0, lambda: events.append("early"))
    runtime.call_later(1.5, lambda: events.append("never")).cancel()
    before = runtime.now_ms()
    runtime.pass_time(1200)
    assert events == ["early"]
    runtime.run_until(lambda: len(events) == 2)
    assert events == ["early", "late"]
    assert 2000 <= runtime.now_ms() - before < 2100
    assert runtime.monotonic() >= 2.0


def test_waiting_for_nothing_is_an_error() -> None:
    runtime = SimulatedRuntime(Random(0))
    with pytest.raises(Stuck):
        runtime.run_until(lambda: False)

    def again() -> None:
        runtime.call_soon(again)

    again()
    with pytest.raises(Stuck):
        runtime.run_until(lambda: False, steps_max=100)
