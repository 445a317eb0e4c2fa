"""Places in all partitions of a topic, as one text: PARTITION:OFFSET, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.browsing import PARTITIONS_MAX
from mainstem.protocols.http.errors import InvalidParameter

_PLACES = re.compile(r"\d{1,10}:\d{1,19}(?:,\d{1,10}:\d{1,19})*")


def encode_positions(positions: Mapping[int, int]) -> str:
    """As text."""
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())


def decode_positions(text: str, topic: Topic, parameter: str = "after") -> dict[int, int]:
    """From text. Raises InvalidParameter."""
    if not _PLACES.fullmatch(text):
        raise InvalidParameter(f"{parameter} is PARTITION:OFFSET, separated by commas", parameter)
    pairs = [place.split(":") for place in text.split(",")]
    positions = {int(partition): int(offset) for partition, offset in pairs}
    if len(positions) < len(pairs) or len(positions) > PARTITIONS_MAX or max(positions) >= len(topic.logs):
        raise InvalidParameter(f"not places of {len(topic.logs)} partitions, each once", parameter)
    if max(positions.values()) > 1 << 62:
        raise InvalidParameter("not an offset", parameter)
    return positions
