"""/v1/alarms: what is not as it should be, and the rules; and what the rules measure."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.broker.alarms.alarms import InvalidRule
from mainstem.broker.alarms.book import (
    DEAD_LETTERS,
    LAG,
    LIVE_PREFIX,
    PIPELINES,
    STORAGE_FREE,
    STORAGE_REFUSES,
    AlarmRule,
)
from mainstem.broker.broker import Broker
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.groups.group_lag import GroupLag, TotalLag
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.routes import Call, Route, Spawn
from mainstem.protocols.http.mapping.alarm_documents import AlarmList, RulePath
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.protocols.http.mapping.group_documents import group_names

OK, NO_CONTENT = 200, 204
ALARMS = "/v1/alarms"
RULE = "/v1/alarms/rules/{name}"
LOOK_TICKS = 5
"""Samples between two looks."""
PARTITIONS_MAX = 10_000
"""Looked at for the lag of groups, at one look."""
QUEUES_MAX = 10_000
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class AlarmHandlers:
    """Alarms: shown, and measured."""

    def __init__(self, operations: Operations, broker: Broker, lag: GroupLag, spawn: Spawn) -> None:
        self._operations = operations
        self._broker = broker
        self._lag = lag
        self._spawn = spawn
        self._is_looking = False
        broker.alarms.sources.append(self.measure)
        broker.live.on_sample.append(self._sampled)

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", ALARMS, self.list_alarms, {OK: AlarmList}, query=NoQuery),
            Route("PUT", RULE, self.put_alarm_rule, {OK: AlarmRule}, steps=RulePath, query=NoQuery, content=AlarmRule,
                  refusals=(errors.InvalidRule, *WRITES)),
            Route("DELETE", RULE, self.delete_alarm_rule, {NO_CONTENT: None}, steps=RulePath, query=NoQuery,
                  refusals=(errors.UnknownRule, *WRITES)),
        ]  # fmt: skip

    def list_alarms(self, call: Call) -> AlarmList:
        """Alarms that are raised, and all rules."""
        book = self._broker.alarms.book
        line = sorted(book.active.values(), key=lambda alarm: (alarm.severity != "critical", alarm.since_ms))
        return AlarmList(line, book.rules)

    async def put_alarm_rule(self, call: Call) -> AlarmRule:
        """Set a rule, in place of one of its name."""
        try:
            await self._broker.alarms.set_rule(call.path.name, call.content)
        except InvalidRule as error:
            raise errors.InvalidRule(str(error)) from None
        rule: AlarmRule = call.content
        return rule

    async def delete_alarm_rule(self, call: Call) -> None:
        """Switch a rule off; a default stays off."""
        if call.path.name not in self._broker.alarms.book.rules:
            raise errors.UnknownRule(f"no rule {call.path.name}")
        await self._broker.alarms.set_rule(call.path.name, None)

    def _sampled(self) -> None:
        if self._broker.live.tick % LOOK_TICKS == 0 and not self._is_looking:
            self._is_looking = True
            self._spawn(self._look())

    async def _look(self) -> None:
        try:
            await self._broker.alarms.look()
        finally:
            self._is_looking = False

    async def measure(self) -> dict[str, Mapping[str, float]]:
        """Values by measure and subject; only what a rule asks for."""
        wanted = {rule.measure for rule in self._broker.alarms.book.rules.values()}
        measures: dict[str, Mapping[str, float]] = {}
        storage = self._operations.storage()
        for name in (STORAGE_FREE, STORAGE_REFUSES):
            if name in storage:
                measures[name] = {"": storage[name]}
        for name, value in self._broker.live.newest.items():
            if LIVE_PREFIX + name in wanted:
                measures[LIVE_PREFIX + name] = {"": value}
        pipelines = self._broker.pipelines
        if PIPELINES in wanted:
            measures[PIPELINES] = {name: float(pipelines.state(name) == "failed") for name in pipelines.all()}
        if DEAD_LETTERS in wanted:
            measures[DEAD_LETTERS] = await self._dead_letters()
        if LAG in wanted:
            measures[LAG] = await self._group_lag()
        return measures

    async def _dead_letters(self) -> dict[str, float]:
        """Messages that wait in queues to which others send what they give up."""
        pace, found = Pace(self._broker.clock), {}
        looked_at = 0
        for namespace in self._broker.queues.namespaces():
            for queue in self._broker.queues.all(namespace):
                looked_at += 1
                target = queue.rules.dead_letter
                if target is None or looked_at > QUEUES_MAX:
                    continue
                await pace.step()
                letters = self._broker.queues.find(namespace, target.routing_key or queue.name)
                if letters is not None and letters is not queue:
                    found[letters.name] = float(letters.ready_count)
        return found

    async def _group_lag(self) -> dict[str, float]:
        pace, looked_at = Pace(self._broker.clock), 0
        found: dict[str, float] = {}
        for name in group_names(self._broker):
            looked_at += self._lag.count(name)
            if looked_at > PARTITIONS_MAX:
                break
            total = TotalLag()
            async for behind in self._lag.walk(name, pace):
                total.add(behind.lag)
            found[name] = total.seconds or 0.0
        return found
