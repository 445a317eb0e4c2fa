"""What a recovered engine says about itself, and whether that is a prefix of what was sequenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from mainstem.model.errors import UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Committed, Edge, LogEnd
from mainstem.storage.sequencer.engine_scopes import decode_log_entry, decode_log_key, decode_number
from mainstem.testing.runtime import SimulatedRuntime, Stuck
from tests.simulation.invariants import (
    EveryCallIsAnswered,
    GroupsAtomic,
    Invariant,
    NothingAcknowledgedLost,
    OffsetsDenseAndNeverReused,
    RetentionTakesOnlyWhatIsDue,
    StableOffsetAndAborted,
    StateEqualsReplay,
)
from tests.simulation.model import LogModel, Model, SentCommit, SentLease, replay

STEPS_MAX = 20_000

Sequenced = tuple["SentCommit | SentLease", Committed]


class Requirement(NamedTuple):
    """The newest Commit that must not be lost, and why."""

    ordinal: int
    invariant: type[Invariant]
    text: str


NOTHING_YET = Requirement(-1, NothingAcknowledgedLost, "")


class Observation(NamedTuple):
    """What a recovered engine says about itself."""

    ends: dict[int, LogEnd]
    starts: dict[int, int]
    configs: dict[int, tuple[object, int]]
    scopes: dict[str, dict[bytes, bytes]]
    epochs: dict[str, int]


def observe(engine: Any, runtime: SimulatedRuntime, logs: Sequence[int], scopes: Sequence[str]) -> Observation:
    """Ask for everything that can be told without reading batches."""

    def ask(answer: Answer[Any]) -> Any:
        try:
            runtime.run_until(lambda: answer.done, STEPS_MAX)
        except Stuck as stuck:
            EveryCallIsAnswered.broken(f"after recovery: {stuck}")
        return answer.result()

    ends: dict[int, LogEnd] = {}
    starts: dict[int, int] = {}
    configs: dict[int, tuple[object, int]] = {}
    for key, value in ask(engine.load("engine/logs")).entries.items():
        entry = decode_log_entry(value)
        configs[decode_log_key(key)] = entry.config, entry.floor
    for log in logs:
        try:
            starts[log] = ask(engine.offset_at(log, Edge.START)).offset
        except UnknownLog:
            continue
        facts = ask(engine.read(log, starts[log], 0))
        ends[log] = LogEnd(facts.end, facts.stable)
    found = {scope: dict(ask(engine.load(scope)).entries) for scope in scopes}
    leases = ask(engine.load("engine/leases")).entries
    epochs = {key.decode(): decode_number(value) for key, value in leases.items()}
    return Observation(ends, starts, configs, found, epochs)


class RecoveryCheck:
    """Looks for the prefix of the sequenced Commits that was observed."""

    def __init__(
        self,
        baseline: Model,
        entries: Sequence[Sequenced],
        seen: Observation,
        scopes: Sequence[str],
        roles: Sequence[str],
        may_begin: Callable[[LogModel, int], bool],
    ) -> None:
        self._baseline = baseline
        self._entries = entries
        self._seen = seen
        self._scopes = scopes
        self._roles = roles
        self._may_begin = may_begin

    def find(self, required: Requirement) -> tuple[Model, int]:
        """The model after the shortest prefix that fits and is long enough, and its length."""
        model = self._baseline.copy()
        for place in range(len(self._entries) + 1):
            if place:
                replay(model, *self._entries[place - 1])
            if model.last_ordinal >= required.ordinal and self._fits(model):
                return model, place
        return self._explain(required)

    def _fits(self, model: Model) -> bool:
        seen = self._seen
        if model.logs.keys() != seen.ends.keys() or model.logs.keys() != seen.configs.keys():
            return False
        for log in model.logs.values():
            if (log.end, log.stable) != (seen.ends[log.id].end, seen.ends[log.id].stable):
                return False
            if seen.configs[log.id] != (log.config, log.floor) or not self._may_begin(log, seen.starts[log.id]):
                return False
        if any(model.epochs.get(role, 0) != seen.epochs.get(role, 0) for role in self._roles):
            return False
        return all(model.scopes.get(scope, {}) == seen.scopes[scope] for scope in self._scopes)

    def _explain(self, required: Requirement) -> NoReturn:
        """No prefix that is long enough gives what was found: say which rule that breaks."""
        seen = self._seen
        model = self._baseline.copy()
        shorter = self._fits(model)
        at_required = model.copy() if model.last_ordinal >= required.ordinal else None
        for entry, outcome in self._entries:
            replay(model, entry, outcome)
            shorter = shorter or self._fits(model)
            if at_required is None and model.last_ordinal >= required.ordinal:
                at_required = model.copy()
        lost = [
            f"log {log.id} ends at {seen.ends[log.id].end if log.id in seen.ends else 'nothing'}, not {log.end}"
            for log in (at_required.logs.values() if at_required else ())
            if log.id not in model.deleted and (log.id not in seen.ends or seen.ends[log.id].end < log.end)
        ]
        if shorter or lost:
            required.invariant.broken(f"{required.text}, but after the restart {'; '.join(lost) or 'it is gone'}")
        self._explain_ends(model)
        self._explain_starts(model)
        differences = self._differences(model)
        StateEqualsReplay.broken(f"no prefix of the Commits from #{required.ordinal} on gives this: {differences}")

    def _explain_ends(self, model: Model) -> None:
        """Ends that no Commit ever made."""
        for log, found in self._seen.ends.items():
            known = model.find(log)
            possible = {(fact.end, fact.stable) for fact in known.facts} if known else set()
            if (found.end, found.stable) in possible:
                continue
            ends = {end for end, _ in possible}
            invariant: type[Invariant] = GroupsAtomic
            if found.end in ends:
                invariant = StableOffsetAndAborted
            elif found.end > max(ends, default=0):
                invariant = OffsetsDenseAndNeverReused
            invariant.broken(f"log {log} has {found} after the restart; possible were {sorted(possible)}")

    def _explain_starts(self, model: Model) -> None:
        """Starts that nothing has moved so far."""
        for log, start in self._seen.starts.items():
            known = model.logs.get(log)
            if known is not None and start > known.start and not self._may_begin(known, start):
                RetentionTakesOnlyWhatIsDue.broken(
                    f"log {log} begins at {start} after the restart, {known.start} was due"
                )

    def _differences(self, model: Model) -> str:
        """Against all Commits, for a person who looks for the cause."""
        seen = self._seen
        parts = []
        for log_id in sorted({*model.logs, *seen.ends}):
            log = model.logs.get(log_id)
            expected = log and (log.start, log.end, log.stable, log.floor)
            found = None
            if log_id in seen.ends:
                ends = seen.ends[log_id]
                found = seen.starts[log_id], ends.end, ends.stable, seen.configs.get(log_id, (None, None))[1]
            if expected != found:
                parts.append(f"log {log_id} (start, end, stable, floor) {found}, at last {expected}")
        for scope in self._scopes:
            if model.scopes.get(scope, {}) != seen.scopes[scope]:
                parts.append(f"scope {scope} {seen.scopes[scope]}, at last {model.scopes.get(scope, {})}")
        if model.epochs != seen.epochs:
            parts.append(f"epochs {seen.epochs}, at last {model.epochs}")
        return "; ".join(parts) or "nothing in sight"
