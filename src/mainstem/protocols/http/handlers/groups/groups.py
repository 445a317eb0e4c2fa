"""Groups: who is in them, how far they have come, and how far that is behind."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.groups.seeking import SeekTarget
from mainstem.broker.log import Edge
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.groups.group_lag import Behind, GroupLag, TotalLag
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.protocols.http.mapping.group_documents import (
    GroupDocument,
    GroupMove,
    GroupOffset,
    GroupPage,
    GroupPath,
    GroupSeekDocument,
    GroupSeekWish,
    GroupsQuery,
    GroupSummary,
    OffsetsQuery,
    describe_member,
    describe_sharing,
    group_names,
    group_of,
    is_shared,
    state_of,
)

OK, NO_CONTENT = 200, 204
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)
GROUPS = "/v1/groups"
GROUP = "/v1/groups/{name}"


class GroupHandlers:
    """/v1/groups and below."""

    def __init__(self, broker: Broker, lag: GroupLag) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._lag = lag

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownGroup,)
        return [
            Route("GET", GROUPS, self.list_groups, {OK: GroupPage}, query=GroupsQuery),
            Route("GET", GROUP, self.get_group, {OK: GroupDocument},
                  steps=GroupPath, query=OffsetsQuery, refusals=unknown),
            Route("DELETE", GROUP, self.delete_group, {NO_CONTENT: None}, steps=GroupPath, query=NoQuery,
                  refusals=(*unknown, errors.GroupNotEmpty, *WRITES)),
            Route("POST", GROUP + "/seek", self.seek_group, {OK: GroupSeekDocument}, steps=GroupPath, query=NoQuery,
                  content=GroupSeekWish, refusals=(*unknown, errors.UnknownTopic, errors.GroupNotEmpty, *WRITES)),
        ]  # fmt: skip

    async def list_groups(self, call: Call) -> GroupPage:
        """Groups by name."""
        query = call.query
        known = [name for name in group_names(self._broker) if query.search in name]
        names, more = await smallest(known, query.after, query.limit, Pace(self._clock))
        groups = []
        for name in names:
            try:
                group = group_of(self._broker, name)
            except UnknownGroup:
                continue  # gone while the list was made
            groups.append(GroupSummary(name, state_of(group), len(group.members), is_shared(group)))
        return GroupPage(groups, Page(GROUPS, query.limit, query.search).after(names[-1]) if more else None)

    async def delete_group(self, call: Call) -> None:
        """Delete a group without members, with its offsets."""
        await self._broker.group_seeking.delete(call.path.name)

    async def seek_group(self, call: Call) -> GroupSeekDocument:
        """Move the offsets of a group without members; with `dry_run`, show what would move."""
        wish: GroupSeekWish = call.content
        given = [name for name in ("to", "time_ms", "offset", "by") if getattr(wish, name) is not None]
        if len(given) != 1:
            raise errors.InvalidContent("one of to, time_ms, offset and by", f"/{(given or ['to'])[-1]}")
        edge = None if wish.to is None else Edge.START if wish.to == "start" else Edge.END
        target = SeekTarget(edge, wish.time_ms, wish.offset, wish.by)
        topics = [self._broker.topics.get(name) for name in wish.topics]
        seeking = self._broker.group_seeking
        moves = await seeking.plan(call.path.name, target, topics, wish.partition)
        if not wish.dry_run and moves:
            await seeking.seek(call.path.name, moves)
        return GroupSeekDocument(wish.dry_run, [GroupMove(m.topic.name, m.partition, m.before, m.after) for m in moves])

    async def get_group(self, call: Call) -> GroupDocument:
        """A group: its members, its offsets, and its lag in messages and seconds."""
        name, query = call.path.name, call.query
        after = _decode_after(query.after)
        group = group_of(self._broker, name)
        pace, total = Pace(self._clock), TotalLag()
        members = []
        for member_id in list(group.members):
            await pace.step()
            if member_id in group.members:
                members.append(describe_member(group, member_id, self._broker))
        offsets: dict[tuple[str, int], Behind] = {}
        async for behind in self._lag.walk(name, pace):
            total.add(behind.lag)
            offsets[behind.topic, behind.partition] = behind
        shown, more = await smallest(offsets, after, query.limit, pace)
        page = Page(path_of("v1", "groups", name), query.limit)
        assigned_by, generation, protocol = describe_sharing(group)
        return GroupDocument(
            name=name,
            state=state_of(group),
            is_shared=is_shared(group),
            assigned_by=assigned_by,
            generation=generation,
            protocol=protocol,
            members=members,
            lag_messages=total.messages,
            lag_seconds=total.seconds,
            offsets=[_describe(offsets[key]) for key in shown],
            next=page.after("{}:{}".format(*shown[-1])) if more else None,
        )


def _decode_after(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    topic, _, partition = text.rpartition(":")
    if not topic or not partition.isdecimal():
        raise errors.InvalidParameter("after is TOPIC:PARTITION", "after")
    return topic, int(partition)


def _describe(behind: Behind) -> GroupOffset:
    return GroupOffset(
        topic=behind.topic,
        partition=behind.partition,
        offset=behind.offset,
        start=behind.lag.start,
        end=behind.lag.end,
        committed_ms=behind.committed_ms,
        note=behind.note,
        lag_messages=behind.lag.messages,
        lag_seconds=behind.lag.seconds,
    )
