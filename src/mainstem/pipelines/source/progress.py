"""A query is a group with lag, beside every other consumer.

Spark tells a source late, or never, how far its query has come: `commit` comes with the next micro-batch. So it is told
from several places, each when it knows that all before a position is done: the source when it is given the next start, the
sink when it has committed, and the listener of `mainstem.spark.session()`. They report the same, so the last one wins.

What goes wrong here is a line in the log: it never ends a query.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mainstem.model.errors import MainstemError
from mainstem.pipelines.source.stream_offsets import GROUP, StreamOffsets
from mainstem.sdk.client import Client

REPORT_TIMEOUT_S = 5.0
"""A query does not wait longer than this for its group to be stored."""

logger = logging.getLogger(__name__)


class ProgressReporter:
    """Reports positions, each once."""

    def __init__(self) -> None:
        self._reported: dict[str, Mapping[Any, int]] = {}

    def report(self, client: Client, position: StreamOffsets) -> None:
        """Stores the position as that of its group."""
        if not position.group or not position.offsets or self._reported.get(position.group) == position.offsets:
            return
        try:
            client.commit(position.group, position.offsets)
        except MainstemError as error:
            logger.warning("The progress of group %r is not shown: %s", position.group, error)
        else:
            self._reported[position.group] = position.offsets


def report_progress(position: Mapping[str, Any] | str) -> None:
    """Reports a position as a source gave it to Spark, as such or as the JSON of Spark's progress.

    Positions of other sources are left alone.
    """
    try:
        plain = json.loads(position) if isinstance(position, str) else position
    except ValueError:
        return
    if not isinstance(plain, Mapping) or GROUP not in plain:
        return
    parsed = StreamOffsets.parse(plain)
    with Client(parsed.address, timeout_s=REPORT_TIMEOUT_S, client_id="mainstem-spark-progress") as client:
        ProgressReporter().report(client, parsed)


def report_batch(checkpoint: str | None, batch_id: int) -> None:
    """For the sink, after its commit: reports what the micro-batch of this number has read.

    Spark writes the ends of a batch into its checkpoint before it runs it. A checkpoint elsewhere than in a file
    system of this machine is left to the listener and to the next start.
    """
    if not checkpoint:
        return
    where = urlsplit(checkpoint)
    if where.scheme not in ("", "file"):
        return
    path = Path(unquote(where.path) if where.scheme else checkpoint) / "offsets" / str(batch_id)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    # the first line is the version of the file, the second its metadata; then a line per source
    for line in lines[2:]:
        report_progress(line)
