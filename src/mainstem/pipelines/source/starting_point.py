"""Where a read begins or ends: at an end of the log, at offsets, or at a time."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mainstem.pipelines.errors import InvalidOption
from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, NO_OFFSET, TopicPartition

WORDS = {"earliest": EARLIEST, "latest": LATEST}


class Point(NamedTuple):
    """One of the three is given."""

    word: int | None = None
    """`EARLIEST` or `LATEST`."""
    offsets: Mapping[TopicPartition, int] | None = None
    """Where one is `EARLIEST` or `LATEST`, that is meant."""
    time_ms: int | None = None
    times: Mapping[TopicPartition, int] | None = None
    falls_to_latest: bool = False
    """What a time that no record has reached means: the end, or an error."""
    name: str = "startingOffsets"

    def is_at(self, word: int) -> bool:
        """Whether any partition is meant at this end."""
        return self.word == word or (self.offsets is not None and word in self.offsets.values())


EARLIEST_POINT = Point(word=EARLIEST)
LATEST_POINT = Point(word=LATEST)


def parse_offsets(name: str, text: str, falls_to_latest: bool) -> Point:
    """From `earliest`, `latest`, JSON of offsets, or a time like 2030-01-31T12:00:00Z."""
    word = WORDS.get(text.strip().lower())
    if word is not None:
        return Point(word=word, name=name)
    if text.lstrip().startswith("{"):
        offsets = _parse_json(name, text, '{"orders": {"0": 23, "1": -2}}')
        if any(offset < EARLIEST for offset in offsets.values()):
            raise InvalidOption(f"Option `{name}`: an offset is 0 or above, -2 for earliest or -1 for latest.")
        return Point(offsets=offsets, name=name)
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(
            f"Option `{name}` is {text!r}; it can be earliest, latest, "
            'JSON like {"orders": {"0": 23}}, or a time like 2030-01-31T12:00:00Z.'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return Point(time_ms=round(moment.timestamp() * 1000), falls_to_latest=falls_to_latest, name=name)


def parse_times(name: str, text: str, falls_to_latest: bool) -> Point:
    """From JSON of times in ms per partition."""
    times = _parse_json(name, text, '{"orders": {"0": 1893456000000}}')
    return Point(times=times, falls_to_latest=falls_to_latest, name=name)


def resolve(
    client: Client, point: Point, partitions: Iterable[TopicPartition], *, is_end: bool
) -> dict[TopicPartition, int]:
    """The offsets that the point means, for all of the partitions."""
    wanted = list(partitions)
    if point.word is not None:
        return client.offsets(dict.fromkeys(wanted, point.word))
    if point.offsets is not None:
        _check_covered(point.name, wanted, point.offsets)
        asked = {at: point.offsets[at] for at in wanted}
        ends = client.offsets({at: offset for at, offset in asked.items() if offset < 0})
        return asked | ends
    if point.times is not None:
        _check_covered(point.name, wanted, point.times)
    times = {at: point.time_ms if point.times is None else point.times[at] for at in wanted}
    found = client.offsets({at: time for at, time in times.items() if time is not None})
    later = [at for at, offset in found.items() if offset == NO_OFFSET]
    if later and not is_end and not point.falls_to_latest:
        raise InvalidOption(
            f"No record of {later[0].topic}-{later[0].partition} is as young as the starting time: give an earlier one, or "
            "set startingOffsetsByTimestampStrategy to latest."
        )
    return found | client.offsets(dict.fromkeys(later, LATEST))


def _check_covered(name: str, wanted: list[TopicPartition], given: Mapping[TopicPartition, int]) -> None:
    missing = [f"{at.topic}-{at.partition}" for at in wanted if at not in given]
    unknown = [f"{at.topic}-{at.partition}" for at in given if at not in set(wanted)]
    if missing or unknown:
        what = f"says nothing of {', '.join(missing)}" if missing else f"names {', '.join(unknown)}, which is not read"
        raise InvalidOption(f"Option `{name}` {what}: it must name every partition that is read, and no other.")


def _parse_json(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    try:
        given = json.loads(text)
        return {
            TopicPartition(topic, int(partition)): int(value)
            for topic, partitions in given.items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise InvalidOption(f"Option `{name}` is {text!r}; it must be JSON like {example}.") from None
