"""What Spark tells its tasks of the query they belong to, in a stream and inside foreachBatch."""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"


class QueryBatch(NamedTuple):
    """A batch of a query."""

    query: str
    batch: int


def batch_of(context: TaskContext | None) -> QueryBatch | None:
    """The batch that a task works for; None outside of a stream."""
    if context is None:
        return None
    query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
    return None if query is None or batch is None else QueryBatch(query, int(batch))
