"""How much may be on its way to the disk, and who waits."""

from mainstem.broker.intake import Intake


class Engine:
    """Of which only the backlog is known."""

    def __init__(self) -> None:
        self.pending = 0
        self._waiting: list[tuple[int, object]] = []

    def is_above(self, pending_bytes: int) -> bool:
        return self.pending > pending_bytes

    def when_below(self, pending_bytes: int, callback: object) -> None:
        self._waiting.append((pending_bytes, callback))

    def write(self, size: int) -> None:
        """So much has become durable."""
        self.pending -= size
        waiting, self._waiting = self._waiting, []
        for pending_bytes, callback in waiting:
            if self.is_above(pending_bytes):
                self._waiting.append((pending_bytes, callback))
            else:
                callback()  # type: ignore[operator]


def test_clients_wait_above_the_bound_and_go_on_below_half_of_it() -> None:
    engine, told = Engine(), []
    intake = Intake(engine, 100)  # type: ignore[arg-type]
    engine.pending = 100
    assert not intake.is_pressed
    engine.pending = 101
    assert intake.is_pressed
    intake.when_relieved(lambda: told.append("one"))
    intake.when_relieved(lambda: told.append("two"))
    engine.write(50)
    assert told == []
    engine.write(1)
    assert told == ["one", "two"]


def test_drafts_count_too() -> None:
    engine, told = Engine(), []
    intake = Intake(engine, 100)  # type: ignore[arg-type]
    intake.drafted_bytes = 60
    engine.pending = 41
    assert intake.is_pressed
    intake.when_relieved(lambda: told.append(True))
    engine.write(41)
    assert told == [], "the drafts alone are more than half"
    intake.drafted_bytes = 0
    engine.write(0)
    assert told == [True]


def test_who_is_told_may_wait_again() -> None:
    engine, told = Engine(), []
    intake = Intake(engine, 100)  # type: ignore[arg-type]
    engine.pending = 200

    def again() -> None:
        told.append(True)
        engine.pending = 200
        intake.when_relieved(lambda: told.append(False))

    intake.when_relieved(again)
    engine.write(180)
    assert told == [True]
    engine.write(180)
    assert told == [True, False]
