"""Storage that keeps nothing, and fails when told to."""

from collections.abc import Callable, Sequence

from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, LogChange, MaintainReport, Mutation, StateSnapshot
from mainstem.storage.local.settings import EngineSettings


class FakeEngine:
    term = 0

    def __init__(self) -> None:
        self.fail: Callable[[BaseException], None]
        self.maintained = 0
        self.maintenance_error: BaseException | None = None
        self.closed = False
        self.close_error: BaseException | None = None

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        self.fail = callback

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        self.maintained += 1
        if self.maintenance_error is not None:
            return Answer.failed(self.maintenance_error)
        return Answer.of(MaintainReport())

    def load(self, scope: str) -> Answer[StateSnapshot]:
        return Answer.of(StateSnapshot({}))

    def alter(self, changes: Sequence[LogChange], state: Sequence[Mutation] = ()) -> Answer[None]:
        return Answer.of(None)

    commit = read = offset_at = watch = trim = staticmethod(lambda *_: Answer.of(None))

    def metrics(self) -> dict[str, float]:
        return {"commits_total": 3.0, "cache_bytes": 5.0}

    def close(self) -> Answer[None]:
        self.closed = True
        return Answer.of(None) if self.close_error is None else Answer.failed(self.close_error)


class FakeStorage:
    """Opens once, or not at all."""

    def __init__(self, refusal: BaseException | None = None) -> None:
        self.engine = FakeEngine()
        self._refusal = refusal
        self.settings: EngineSettings | None = None

    def __call__(self, settings: EngineSettings) -> "FakeStorage":
        if self._refusal is not None:
            raise self._refusal
        self.settings = settings
        return self

    async def close(self) -> None:
        await self.engine.close()
