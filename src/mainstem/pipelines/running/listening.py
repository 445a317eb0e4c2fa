"""What Spark tells of queries, brought from its thread to the one that waits for it."""

from __future__ import annotations

import json
import queue
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener


class QueryEvent(NamedTuple):
    """One event of a query."""

    query: str
    """Its id; empty: somebody wants to be heard, see what has changed."""
    progress: Mapping[str, Any] | None = None
    """Of a micro-batch; None: the query has ended."""


class RunListener(StreamingQueryListener):
    """Runs on a thread of Spark's that must not fail."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[QueryEvent] = queue.SimpleQueue()

    def wake(self) -> None:
        """Have the waiting thread look. May be called from a signal handler."""
        self.events.put(QueryEvent(""))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is read yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A micro-batch is done."""
        plain = json.loads(event.progress.json)
        self.events.put(QueryEvent(str(plain.get("id")), plain))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """It is over, one way or the other."""
        self.events.put(QueryEvent(str(event.id)))
