"""Hears of every micro-batch, the last one too, and reports it."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from mainstem.pipelines.queue_mode.settling import settle_quietly
from mainstem.pipelines.source.progress import report_progress


class ProgressListener(StreamingQueryListener):
    """Runs in the driver, on a thread of Spark's that must not fail."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is read yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A micro-batch is done: all before its end is read."""
        for source in event.progress.sources:
            if source.endOffset is not None:
                report_progress(source.endOffset)
                settle_quietly(source.endOffset)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last progress was reported before."""
