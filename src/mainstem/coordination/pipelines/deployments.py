"""Deployed pipelines, and who runs each: what is stored of them.

    n                -> the last number given; identities and epochs are taken from it, so none comes twice
    d | name         -> DefinitionEntry: what was deployed
    s | name         -> StandEntry: what is wanted of it, who runs it, how it ended

A worker runs a pipeline under a lease. Each grant has an epoch that is higher than any before, stored before the worker is
told; a worker that reports under another epoch is refused, and stops. How long a lease lasts is kept in
memory: after a start of the broker each holder has its lease for the full time again, as if it had renewed it at that moment.

The broker does not look into definitions: they are for Spark, which it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from mainstem.coordination.pipelines.errors import DeploymentError, UnknownPipeline
from mainstem.storage.contract import Mutation

SCOPE = "pipelines"
RESERVED_PREFIX = "mainstem."
"""What the names of the broker's own pipelines begin with."""
PIPELINES_MAX = 1_000
DEFINITION_BYTES_MAX = 768 << 10
"""A definition with the files that it names."""
FILES_MAX = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
FILE_NAME = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9_][A-Za-z0-9._ -]*(?:/[A-Za-z0-9_][A-Za-z0-9._ -]*){0,9}")
"""Relative, and never out of the directory that a worker puts it into."""

Wanted: TypeAlias = Literal["running", "paused", "stopped"]

_NUMBER, _DEFINITION, _STAND = b"n", b"d", b"s"
_encode = msgspec.msgpack.Encoder().encode
_decode_number = msgspec.msgpack.Decoder(int).decode


class DefinitionEntry(msgspec.Struct, frozen=True, array_like=True):
    """What was deployed."""

    identity: str
    """Another one when a pipeline of this name is deployed after the last one was removed."""
    revision: int
    file: str
    """The name that the definition's file had."""
    text: str
    files: dict[str, str]
    deployed_ms: int
    origin: str = "deployed"


class StandEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is wanted, and what has become of it."""

    wanted: Wanted = "running"
    epoch: int = 0
    worker: str = ""
    incarnation: str = ""
    """Which life of the worker: a worker that was started again runs nothing yet."""
    finished_ms: int = 0
    """When all was done, of a pipeline that ends; 0: it has not."""


_decode_definition = msgspec.msgpack.Decoder(DefinitionEntry).decode
_decode_stand = msgspec.msgpack.Decoder(StandEntry).decode
NO_STAND = StandEntry()


class Holder(NamedTuple):
    """Who runs a pipeline."""

    worker: str
    incarnation: str


class DeploymentTable:
    """All that is stored."""

    def __init__(self) -> None:
        self.definitions: dict[str, DefinitionEntry] = {}
        self.stands: dict[str, StandEntry] = {}
        self._number = 0

    def get(self, name: str) -> DefinitionEntry:
        """One that was deployed. Raises UnknownPipeline."""
        found = self.definitions.get(name)
        if found is None:
            raise UnknownPipeline(f"there is no pipeline {name!r}")
        return found

    def stand(self, name: str) -> StandEntry:
        """Of a pipeline, whatever its origin."""
        return self.stands.get(name, NO_STAND)

    # Decisions

    def decide_deploy(self, name: str, file: str, text: str, files: Mapping[str, str], now_ms: int) -> list[Mutation]:
        """A new pipeline, or another revision, which runs at once unless it was paused. Raises DeploymentError."""
        check_definition(name, text, files)
        known = self.definitions.get(name)
        if known is None and len(self.definitions) >= PIPELINES_MAX:
            raise DeploymentError(f"there are {PIPELINES_MAX} pipelines already")
        identity, revision = (known.identity, known.revision + 1) if known else (str(self._number + 1), 1)
        entry = DefinitionEntry(identity, revision, file, text, dict(files), now_ms)
        stand = self.stand(name) if known else NO_STAND
        wanted: Wanted = "paused" if stand.wanted == "paused" else "running"
        stand = msgspec.structs.replace(stand, wanted=wanted, finished_ms=0)
        return [
            *([] if known else [self._counted(1)]),
            Mutation(SCOPE, _DEFINITION + name.encode(), _encode(entry)),
            _put_stand(name, stand),
        ]

    def decide_wish(self, name: str, wanted: Wanted) -> list[Mutation]:
        """From now on it is to run, or not. One that has ended begins again."""
        stand = self.stand(name)
        finished_ms = 0 if wanted == "running" else stand.finished_ms
        return [_put_stand(name, msgspec.structs.replace(stand, wanted=wanted, finished_ms=finished_ms))]

    def decide_remove(self, name: str) -> list[Mutation]:
        """It goes. Raises UnknownPipeline."""
        self.get(name)
        return [Mutation(SCOPE, _DEFINITION + name.encode(), None), *self.decide_forget([name])]

    def decide_forget(self, names: Iterable[str]) -> list[Mutation]:
        """What was stored of pipelines that are no more."""
        return [Mutation(SCOPE, _STAND + name.encode(), None) for name in names if name in self.stands]

    def decide_grant(self, names: Iterable[str], holder: Holder) -> list[Mutation]:
        """From now on this worker runs them, each under an epoch of its own."""
        mutations = []
        epoch = self._number
        for name in names:
            epoch += 1
            stand = msgspec.structs.replace(
                self.stand(name), epoch=epoch, worker=holder.worker, incarnation=holder.incarnation
            )
            mutations.append(_put_stand(name, stand))
        return [self._counted(epoch - self._number), *mutations] if mutations else []

    def decide_release(self, names: Iterable[str]) -> list[Mutation]:
        """Nobody runs them any more."""
        return [
            _put_stand(name, msgspec.structs.replace(self.stand(name), epoch=0, worker="", incarnation=""))
            for name in names
            if self.stand(name).worker
        ]

    def decide_finished(self, name: str, now_ms: int) -> list[Mutation]:
        """All is done: nobody needs to run it again."""
        done = msgspec.structs.replace(self.stand(name), finished_ms=now_ms, epoch=0, worker="", incarnation="")
        return [_put_stand(name, done)]

    def _counted(self, more: int) -> Mutation:
        return Mutation(SCOPE, _NUMBER, _encode(self._number + more))

    # Effects

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        kind, name = key[:1], key[1:].decode()
        if kind == _NUMBER:
            assert value is not None
            self._number = _decode_number(value)
        elif kind == _DEFINITION:
            if value is None:
                self.definitions.pop(name, None)
            else:
                self.definitions[name] = _decode_definition(value)
        elif value is None:
            self.stands.pop(name, None)
        else:
            self.stands[name] = _decode_stand(value)


def check_definition(name: str, text: str, files: Mapping[str, str]) -> None:
    """Whether it can be kept. Raises DeploymentError."""
    if not NAME.fullmatch(name):
        raise DeploymentError(f"the name {name!r} cannot be: letters, digits, dot, dash and underscore, at most 200")
    if len(files) > FILES_MAX:
        raise DeploymentError(f"a pipeline has at most {FILES_MAX} files")
    for file in files:
        if not FILE_NAME.fullmatch(file):
            raise DeploymentError(f"the file {file!r} cannot be: a relative path, without . and .., of plain letters")
    size = len(text.encode()) + sum(len(content.encode()) for content in files.values())
    if size > DEFINITION_BYTES_MAX:
        raise DeploymentError(f"the definition and its files have {size} bytes; {DEFINITION_BYTES_MAX} are taken")


def _put_stand(name: str, stand: StandEntry) -> Mutation:
    return Mutation(SCOPE, _STAND + name.encode(), _encode(stand))
