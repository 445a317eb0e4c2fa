"""Groups: who is in them, how far they have come, and how far that is behind."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.errors import UnknownGroup
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.groups.group_lag import Behind, GroupLag, TotalLag
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import PageQuery
from mainstem.protocols.http.mapping.group_documents import (
    GroupDocument,
    GroupOffset,
    GroupPage,
    GroupPath,
    GroupSummary,
    OffsetsQuery,
    describe_member,
    describe_sharing,
    group_names,
    group_of,
    is_shared,
    state_of,
)

OK = 200
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
            Route("GET", GROUPS, self.list_groups, {OK: GroupPage}, query=PageQuery),
            Route("GET", GROUP, self.get_group, {OK: GroupDocument},
                  steps=GroupPath, query=OffsetsQuery, refusals=unknown),
        ]  # fmt: skip

    async def list_groups(self, call: Call) -> GroupPage:
        """Groups by name."""
        query = call.query
        names, more = await smallest(group_names(self._broker), query.after, query.limit, Pace(self._clock))
        groups = []
        for name in names:
            try:
                group = group_of(self._broker, name)
            except UnknownGroup:
                continue  # gone while the list was made
            groups.append(GroupSummary(name, state_of(group), len(group.members), is_shared(group)))
        return GroupPage(groups, Page(GROUPS, query.limit).after(names[-1]) if more else None)

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
        end=behind.lag.end,
        committed_ms=behind.committed_ms,
        note=behind.note,
        lag_messages=behind.lag.messages,
        lag_seconds=behind.lag.seconds,
    )
