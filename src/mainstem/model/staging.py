"""How a stage is named: hidden storage that one attempt of one task fills, until a commit publishes it.

A name is written where Produce has the name of a topic, and ends with the topic that the records are meant for:

    stage:/QUERY/SINK/BATCH/TASK/ATTEMPT/TOPIC
    stage:/QUERY/SINK/BATCH/TASK/ATTEMPT/TOPIC/later

Under the second name each record says in a header of its own when it is due: publishing the stage puts it into the schedule.
No topic can have such a name, because topics have neither colon nor slash. Parts are percent-encoded, so that any text can
be a sink's.

A stage counts positions: each batch takes one for its label, and one for each of its records. A batch is sent with the
position at which the stage ends as its base offset, so that one which is sent again is known, and a gap is seen.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

PREFIX = "stage:/"
LATER = "later"
DUE_BYTES = 8
PART_CHARACTERS_MAX = 255
BATCH_MAX = 2**63 - 1
LABEL_POSITIONS = 1


class InvalidStageName(ValueError):
    """Not the name of a stage."""


class SinkKey(NamedTuple):
    """One sink of one query: its batches are numbered, and each is published once."""

    query: str
    sink: str


class StageKey(NamedTuple):
    """One attempt to write one task's share of a batch."""

    query: str
    sink: str
    batch: int
    task: int
    attempt: str
    """Never used twice: after a restart a query counts its attempts from zero again."""

    @property
    def sink_key(self) -> SinkKey:
        """Whose batch it is."""
        return SinkKey(self.query, self.sink)

    def topic_name(self, topic: str, *, is_later: bool = False) -> str:
        """The name under which records for a topic are sent to this stage."""
        parts = [self.query, self.sink, str(self.batch), str(self.task), self.attempt, topic]
        if is_later:
            parts.append(LATER)
        return PREFIX + "/".join(quote(part, safe="") for part in parts)


class StageName(NamedTuple):
    """What a name says."""

    key: StageKey
    topic: str
    is_later: bool


def decode_stage_name(name: str) -> StageName:
    """The stage, the topic that is meant, and whether its records have times. Raises InvalidStageName."""
    parts = [unquote(part) for part in name.removeprefix(PREFIX).split("/")]
    is_later = len(parts) == 7 and parts[-1] == LATER
    if is_later:
        parts.pop()
    if not name.startswith(PREFIX) or len(parts) != 6:
        raise InvalidStageName(
            f"a stage is named {PREFIX}QUERY/SINK/BATCH/TASK/ATTEMPT/TOPIC, or the same with /{LATER}"
        )
    query, sink, batch, task, attempt, topic = parts
    return StageName(check_stage_key(StageKey(query, sink, _number(batch), _number(task), attempt)), topic, is_later)


def check_stage_key(key: StageKey) -> StageKey:
    """The same. Raises InvalidStageName."""
    if not key.query or not key.attempt:
        raise InvalidStageName("a stage has a query and an attempt")
    if "\0" in key.query + key.sink:
        raise InvalidStageName("neither query nor sink may contain a zero character")
    if max(len(key.query), len(key.sink), len(key.attempt)) > PART_CHARACTERS_MAX:
        raise InvalidStageName(f"query, sink and attempt have at most {PART_CHARACTERS_MAX} characters each")
    if not (0 <= key.batch <= BATCH_MAX and 0 <= key.task <= BATCH_MAX):
        raise InvalidStageName("batch and task are numbers from 0 on")
    return key


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise InvalidStageName(f"{text[:20]!r} is not a number")
    return int(text)
