"""State above the log: topics, groups, subscriptions, queues, routes, schedules, transactions, schemas.

Two rules for changes, by how often the state changes.

*Decide, then replay.* `decide` is pure: it answers the mutations to commit. `replay` applies them once they are durable, and
again after a restart. A refused commit leaves nothing to undo. Kept by the catalog, administration, routes, transactions,
producer ids, offsets of groups, stages, acquisitions, deployments and schemas.

*Change, then hand out the difference.* Members of groups (classic, directed, share, streams), cursors, leased cursors, lanes of
queues and schedules change in memory at once. `take_changes` hands out what has changed since the last commit. This state is hot:
one commit gathers the changes of many calls, and a mutation for each of them would be written for nothing. The price is a way
back where a commit is refused: `Cursor.change_all`, `ChangesUnderway.put_back`, `Settling.returned`, `Part.revert`.
"""
