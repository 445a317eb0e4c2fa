"""Who published, was given and committed what: stretches of offsets, noted once for each pass, never for each message.

Stretches of one connection that follow each other are one. Once a second they are written to a log of their own, packed, with
what is known of the connections. A crash loses the newest second of it, which is allowed: it is told about messages, it is not
the messages.
"""

from __future__ import annotations

import functools
import logging
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from mainstem.broker.clock import Clock, Timer
from mainstem.model.bounds import NotNegative
from mainstem.model.errors import MainstemError, UnknownLog
from mainstem.model.speaking import SPEAKER, Speaker
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Append,
    Commit,
    CommitResult,
    Committed,
    ConfigureLog,
    CreateLog,
    Edge,
    Engine,
    LogConfig,
    Mutation,
    TimeAfter,
)
from mainstem.wire.record_batch import batches_in, decode_records, encode_batch
from mainstem.wire.record_batch.record import Record

if TYPE_CHECKING:
    from mainstem.wire.messages.message import Message

log = logging.getLogger(__name__)

TRACE_LOG = (1 << 62) - 1
"""Below the buckets of the schedule, far above all others."""
SCOPE = "trace"
KEY = b"log"
WRITE_DELAY_S = 1.0
STRETCHES_MAX = 5_000
"""In one second; of more, the first."""
PIECES_MAX = 32
"""Messages of one pass that do not follow each other are noted one by one, up to this number."""
READ_BYTES = 1 << 20
READS_MAX = 64
"""The bytes that are read to answer one question."""
LAST_OFFSET_DELTA_AT = 23
"""In a v2 record batch."""
_INT = struct.Struct(">i")

Did: TypeAlias = Literal["p", "g", "c"]
"""Published; was given; committed as read."""


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of who did what with messages."""

    retention_ms: NotNegative = 86_400_000
    """For how long; 0: nothing is noted."""
    bytes_max: NotNegative = 256 << 20
    """On disk, at most."""


class Party(NamedTuple):
    """A connection, as it was."""

    id: str
    protocol: str
    client: str
    library: str
    version: str
    user: str
    address: str


class Stretch(NamedTuple):
    """One connection did this with these offsets of a log."""

    did: Did
    log: int
    first: int
    last: int
    step: int
    time_ms: int
    party: str
    name: str
    """Of the group, queue or subscription."""


class Deed(NamedTuple):
    """What was done with one message."""

    did: Did
    time_ms: int
    name: str
    party: Party


class _Page(msgspec.Struct, frozen=True, array_like=True):
    """What one second brought."""

    parties: list[Party]
    stretches: list[Stretch]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Page).decode


class Chronicle:
    """Of one broker."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = TraceSettings()
        self._is_on = False
        """Until the settings are known."""
        self._stored: LogConfig | None = None
        self._under_way: dict[tuple[Did, int, Speaker, str, int], list[int]] = {}
        """First, last and time of the stretch that may go on."""
        self._closed: list[Stretch] = []
        self._parties: dict[str, Party] = {}
        self._timer: Timer | None = None
        self._writes = 0
        self.left_out = 0
        """Stretches beyond what one second may bring."""

    async def load(self) -> None:
        """Whether the log is there."""
        content = (await self._engine.load(SCOPE)).entries.get(KEY)
        self._stored = None if content is None else msgspec.msgpack.decode(content, type=LogConfig)

    def govern(self, settings: TraceSettings) -> None:
        """From now on."""
        self._settings = settings
        self._is_on = settings.retention_ms > 0

    @property
    def is_writing(self) -> bool:
        """Whether something is noted that is not in the log yet."""
        return self._timer is not None or self._writes > 0

    # Noting

    def publish(self, commits: Sequence[Commit], patient: bool = False) -> Answer[list[CommitResult]]:
        """The engine's commit; who speaks has published what it appends."""
        who = SPEAKER.get()
        if who is None or not self._is_on:
            return self._engine.commit(commits, patient)
        # Taken before: the engine may write into batches, and their memory is not to be held for this.
        spans = [
            [(append.log, _INT.unpack_from(append.batch, LAST_OFFSET_DELTA_AT)[0]) for append in one.appends]
            for one in commits
        ]
        answer = self._engine.commit(commits, patient)
        answer.on_done(functools.partial(self._published, spans, who))
        return answer

    def _published(self, spans: list[list[tuple[int, int]]], who: Speaker, answer: Answer[list[CommitResult]]) -> None:
        if answer.error is not None:
            return
        for appended, result in zip(spans, answer.result(), strict=True):
            if isinstance(result, Committed):
                for (number, span), base in zip(appended, result.bases, strict=False):
                    self.note("p", number, base, base + span, who)

    def gave(self, name: str, messages: Sequence[Message], who: Speaker) -> None:
        """A queue or subscription has given these to a consumer."""
        if not self._is_on:
            return
        first, last = messages[0], messages[-1]
        count = len(messages) - 1
        span = last.offset - first.offset
        if first.lane is last.lane and (not count or span == count or span % count == 0):
            step = span // count if count else 1
            self.note("g", first.lane.log, first.offset, last.offset, who, name, step or 1)
            return
        for message in messages[:PIECES_MAX]:
            self.note("g", message.lane.log, message.offset, message.offset, who, name)

    def note(self, did: Did, number: int, first: int, last: int, who: Speaker, name: str = "", step: int = 1) -> None:
        """Somebody did this with offsets of a log."""
        if not self._is_on or last < first:
            return
        key = (did, number, who, name, step)
        known = self._under_way.get(key)
        if known is not None and known[1] + step == first:
            known[1] = last
            return
        if len(self._under_way) + len(self._closed) >= STRETCHES_MAX:
            self.left_out += 1
            return
        if known is not None:
            self._close(key, known)
        self._under_way[key] = [first, last, self._clock.now_ms()]
        if who.id not in self._parties:
            self._parties[who.id] = _party(who)
        if self._timer is None:
            self._timer = self._clock.call_later(WRITE_DELAY_S, self._write)

    def _close(self, key: tuple[Did, int, Speaker, str, int], known: list[int]) -> None:
        did, number, who, name, step = key
        first, last, time_ms = known
        self._closed.append(Stretch(did, number, first, last, step, time_ms, who.id, name))

    def _write(self) -> None:
        self._timer = None
        for key, known in self._under_way.items():
            self._close(key, known)
        page = _Page(list(self._parties.values()), self._closed)
        self._under_way, self._closed, self._parties = {}, [], {}
        config = LogConfig(retention_ms=self._settings.retention_ms, retention_bytes=self._settings.bytes_max)
        if config != self._stored:
            change = CreateLog(TRACE_LOG, config) if self._stored is None else ConfigureLog(TRACE_LOG, config)
            state = [Mutation(SCOPE, KEY, msgspec.msgpack.encode(config))]
            self._engine.alter([change], state).on_done(_complain)
            self._stored = config
        value = zlib.compress(_encode(page), 6)
        batch = encode_batch([Record(0, self._clock.now_ms(), None, value)])
        self._writes += 1
        self._engine.commit([Commit(appends=[Append(TRACE_LOG, batch)])]).on_done(self._written)

    def _written(self, answer: Answer[list[CommitResult]]) -> None:
        self._writes -= 1
        _complain(answer)

    # Asking

    async def deeds(self, number: int, offset: int, since_ms: int) -> tuple[list[Deed], bool]:
        """What was done with one message since it was published, and whether all of it was looked at."""
        found: list[Deed] = []
        if self._stored is None:
            return found, True
        try:
            at = (await self._engine.offset_at(TRACE_LOG, TimeAfter(max(0, since_ms)))).offset
        except UnknownLog:
            return found, True  # the first second is not written yet
        if at < 0:
            return found, True
        at = max(at, (await self._engine.offset_at(TRACE_LOG, Edge.START)).offset)
        for _ in range(READS_MAX):
            result = await self._engine.read(TRACE_LOG, at, READ_BYTES)
            for buffer in result.batches:
                view = memoryview(buffer)
                for place, size in batches_in(view):
                    for record in decode_records(view[place : place + size]):
                        found += _fitting(record, number, offset)
            if not at < result.next_offset < result.end:
                return found, True
            at = result.next_offset
        return found, False


def _fitting(record: Record, number: int, offset: int) -> list[Deed]:
    try:
        page = _decode(zlib.decompress(record.value or b""))
    except (msgspec.MsgspecError, zlib.error):
        return []
    parties = {party.id: party for party in page.parties}
    return [
        Deed(one.did, one.time_ms, one.name, parties[one.party])
        for one in page.stretches
        if one.log == number and one.first <= offset <= one.last and (offset - one.first) % one.step == 0
        if one.party in parties
    ]


def _party(who: Speaker) -> Party:
    peer = who.peer
    if peer is None:
        return Party(who.id, who.protocol, "", "", "", "", who.endpoints.peer)
    return Party(who.id, who.protocol, peer.name, peer.library, peer.version, peer.user, who.endpoints.peer)


def _complain(answer: Answer[Any]) -> None:
    if isinstance(answer.error, MainstemError):
        log.warning("what was noted of messages is not written: %s", answer.error)
