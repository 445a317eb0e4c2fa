"""Messages of a queue from an offset on. Where there are none yet, the answer waits for some, or for its time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.clock import Timer
from mainstem.broker.groups.groups import TopicPlace
from mainstem.broker.log import Answer, LogEnd, ReadResult
from mainstem.broker.records.strands import is_heavy, open_committed
from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.protocols.rocketmq.codec.remoting.messages import encode_message
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler, Spawn
from mainstem.protocols.rocketmq.handlers.remoting.connection import RemotingConnection
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.offsets import GroupOffsets
from mainstem.protocols.rocketmq.mapping.filters import ALL, TAG, Wants, make_filter
from mainstem.protocols.rocketmq.mapping.messages import CLUSTER, REPLY_TO_CLIENT, stored_message
from mainstem.protocols.rocketmq.mapping.names import find_topic
from mainstem.protocols.rocketmq.session.settings import RemotingSettings
from mainstem.wire.record_batch import Record

COMMITS_OFFSET, MAY_WAIT, HAS_FILTER, CLASS_FILTER = 1, 2, 4, 8
MESSAGES_MAX = 1_024
ANSWER_BYTES = 256 << 10
ANSWER_BYTES_MAX = 4 << 20
WAIT_MS_MAX = 60_000
SUGGESTED_BROKER = 0


class Pull:
    """One request."""

    __slots__ = (
        "bytes_max",
        "call",
        "group",
        "log",
        "messages_max",
        "offset",
        "queue",
        "timer",
        "topic",
        "wait_ms",
        "wants",
    )

    def __init__(self, call: Call, group: str, topic: Topic, queue: int, wants: Wants | None) -> None:
        self.call = call
        self.group = group
        self.topic = topic
        self.queue = queue
        self.log = topic.logs[queue]
        self.offset = call.number("queueOffset")
        self.messages_max = min(max(call.number("maxMsgNums", 32), 1), MESSAGES_MAX)
        asked = call.number("maxMsgBytes", -1)
        self.bytes_max = min(asked if asked > 0 else ANSWER_BYTES, ANSWER_BYTES_MAX)
        may_wait = call.number("sysFlag", 0) & MAY_WAIT
        self.wait_ms = min(call.number("suspendTimeoutMillis", 0), WAIT_MS_MAX) if may_wait else 0
        self.wants = wants
        self.timer: Timer | None = None

    def finish(self, code: ResponseCode, next_offset: int, start: int, end: int, body: bytes = b"") -> None:
        """Answer it."""
        if self.timer is not None:
            self.timer.cancel()
        fields = {
            "suggestWhichBrokerId": SUGGESTED_BROKER,
            "nextBeginOffset": next_offset,
            "minOffset": start,
            "maxOffset": end,
        }
        remark = "FOUND" if code is ResponseCode.SUCCESS else code.name
        self.call.answer(fields, body, code=code, remark=remark)


class PullHandlers:
    """Of all connections."""

    def __init__(
        self, broker: Broker, settings: RemotingSettings, membership: Membership, offsets: GroupOffsets, spawn: Spawn
    ) -> None:
        self._broker = broker
        self._cluster = settings.cluster_name
        self._topics = broker.topics
        self._membership = membership
        self._offsets = offsets
        self._spawn = spawn
        self._watch = broker.watch(self._moved)
        self._waiting: dict[int, dict[Pull, ReadResult]] = {}
        """By log, each with what was read last."""
        self._connections: dict[RemotingConnection, set[Pull]] = {}

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.PULL_MESSAGE: self.pull, RequestCode.LITE_PULL_MESSAGE: self.pull}

    def pull(self, call: Call) -> None:
        """Answer now or later. Raises RequestRefused."""
        name, group, queue = call.text("topic"), call.text("consumerGroup"), call.number("queueId")
        topic = find_topic(self._topics, name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist")
        if not 0 <= queue < len(topic.logs):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topic {name} has no queue {queue}")
        flags = call.number("sysFlag", 0)
        if flags & COMMITS_OFFSET and (committed := call.number("commitOffset", -1)) >= 0:
            self._offsets.note(group, topic, queue, committed)
        pull = Pull(call, group, topic, queue, self._filter(call, flags, group, name))
        if not self._redirect(pull):
            self._read(pull)

    def _redirect(self, pull: Pull) -> bool:
        """Tell a member of a group that was moved where it goes on."""
        moved = self._offsets.take_reset(pull.group, TopicPlace(pull.topic.id, pull.queue))
        if moved is not None:
            pull.finish(ResponseCode.PULL_OFFSET_MOVED, moved, moved, moved)
        return moved is not None

    def group_moved(self, group: str, logs: Iterable[int]) -> None:
        """Members that wait hear of it now."""
        for log in logs:
            for pull in [one for one in self._waiting.get(log, ()) if one.group == group]:
                self._leave(pull)
                if not self._redirect(pull):
                    self._read(pull)

    def _filter(self, call: Call, flags: int, group: str, topic: str) -> Wants | None:
        """What the request says, else what the newest heartbeat said. Without both, the client picks by itself."""
        if flags & CLASS_FILTER:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "class filters are not supported")
        expression, kind = call.fields.get("subscription"), call.fields.get("expressionType") or TAG
        if not (flags & HAS_FILTER and expression is not None):
            known = self._membership.subscription(group, topic)
            if known is not None:
                expression, kind = known.sub_string, known.expression_type or TAG
        if expression is None and kind != TAG:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"group {group} has not said what it wants of {topic}"
            )
        return make_filter(expression or ALL, kind)

    # Reading

    def _read(self, pull: Pull) -> None:
        answer = self._broker.read(pull.log, pull.offset, pull.bytes_max)
        if answer.done:
            self._take(pull, answer)
        else:
            answer.on_done(lambda done: self._take(pull, done))

    def _take(self, pull: Pull, answer: Answer[ReadResult]) -> None:
        if pull.call.connection.is_closed:
            return
        error = answer.error
        if isinstance(error, OffsetOutOfRange):
            moved = error.start if pull.offset < error.start else error.end
            pull.finish(ResponseCode.PULL_OFFSET_MOVED, moved, error.start, error.end)
            return
        if error is not None:
            pull.call.refuse(error)
            return
        result = answer.result()
        end = min(result.next_offset, result.stable)
        if end <= pull.offset:
            self._wait(pull, result)
        elif is_heavy(result):
            self._spawn(self._open(pull, result, end))
        else:
            self._give(pull, result, end, open_committed(result, pull.offset, end)[0])

    async def _open(self, pull: Pull, result: ReadResult, end: int) -> None:
        job = functools.partial(open_committed, result, pull.offset, end)
        records, _ = await asyncio.shield(self._broker.heavy_work.run(job))
        if not pull.call.connection.is_closed:
            self._give(pull, result, end, records)

    def _give(self, pull: Pull, result: ReadResult, end: int, records: list[Record]) -> None:
        parts: list[bytes] = []
        size, next_offset, wants = 0, end, pull.wants
        host = pull.call.connection.host
        for record in records:
            if len(parts) == pull.messages_max:
                next_offset = record.offset
                break
            message = stored_message(pull.topic, pull.queue, record, host)
            if wants is not None and not wants(message.properties):
                continue
            if REPLY_TO_CLIENT in message.properties:
                # A client makes the address of its reply of the cluster's name.
                message = message._replace(properties={**message.properties, CLUSTER: self._cluster})
            part = encode_message(message)
            if parts and size + len(part) > pull.bytes_max:
                next_offset = record.offset
                break
            parts.append(part)
            size += len(part)
        code = ResponseCode.SUCCESS if parts else ResponseCode.PULL_RETRY_IMMEDIATELY
        pull.finish(code, next_offset, result.start, result.stable, b"".join(parts))

    # Waiting

    def _wait(self, pull: Pull, result: ReadResult) -> None:
        if pull.wait_ms <= 0:
            self._end(pull, result)
            return
        if pull.timer is None:
            clock = self._broker.clock
            pull.timer = clock.call_later(pull.wait_ms / 1_000, lambda: self._leave_and_end(pull))
        connection = pull.call.connection
        known = self._connections.get(connection)
        if known is None:
            known = self._connections[connection] = set()
            connection.on_hurry.append(self._hurried)
        known.add(pull)
        self._waiting.setdefault(pull.log, {})[pull] = result
        try:
            now = self._watch.add(pull.log)
        except UnknownLog as error:
            self._leave(pull)
            pull.call.refuse(error)
            return
        if now is not None and now.stable > pull.offset:
            self._leave(pull)
            self._read(pull)

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        for log, end in ends.items():
            for pull in list(self._waiting.get(log, ())):
                if end.stable > pull.offset or end.end < 0:
                    self._leave(pull)
                    self._read(pull)

    def _leave(self, pull: Pull) -> ReadResult | None:
        """It does not wait any more; its time goes on, should it wait again."""
        waiting = self._waiting.get(pull.log)
        result = None if waiting is None else waiting.pop(pull, None)
        if waiting is not None and not waiting:
            del self._waiting[pull.log]
            self._watch.remove(pull.log)
        self._connections.get(pull.call.connection, set()).discard(pull)
        return result

    def _leave_and_end(self, pull: Pull) -> None:
        pull.wait_ms = 0  # Where it is being read, that decides.
        result = self._leave(pull)
        if result is not None:
            self._end(pull, result)

    def _end(self, pull: Pull, result: ReadResult) -> None:
        pull.finish(ResponseCode.PULL_NOT_FOUND, pull.offset, result.start, result.stable)

    def _hurried(self, connection: RemotingConnection) -> None:
        """The connection ends: answer, or let go, all that waits there."""
        for pull in list(self._connections.pop(connection, ())):
            if connection.is_closed:
                self._leave(pull)
                if pull.timer is not None:
                    pull.timer.cancel()
            else:
                self._leave_and_end(pull)
