"""Calls of the gRPC protocol over a broker in memory: what is refused and how, dead letters, settings, garbage."""

from collections.abc import Mapping
from typing import Any

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.adapter import NAME, GrpcBroker
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import Code, MessageType
from mainstem.protocols.rocketmq.errors import MalformedFrame
from mainstem.protocols.rocketmq.session.settings import GrpcSettings
from mainstem.wire.http2.frames import END_HEADERS, END_STREAM, PREFACE, FrameType, encode_frame, encode_settings
from tests.support.clients.session_client import SessionClient
from tests.support.worlds.brokers import with_broker


class Operations:
    def advertised(self) -> Mapping[str, list[str]]:
        return {NAME: ["127.0.0.1:8081"]}

    def version(self) -> str:
        return "1"


class GrpcClient(SessionClient):
    """Calls by our own frames."""

    def __init__(self, broker: Broker, **settings: int) -> None:
        super().__init__(GrpcBroker(GrpcSettings(**settings), broker, Operations()).open_session)
        self._stream = -1
        self._decoder = hpack.Decoder()
        self._answers: dict[int, bytearray] = {}
        self.trailers: dict[int, dict[str, str]] = {}
        self.send_bytes(PREFACE + encode_settings({}))

    def begin(self, method: str, request: Any, *, ends: bool = True) -> int:
        self._stream += 2
        headers = [(":method", "POST"), (":path", schema.SERVICE + method), ("content-type", "application/grpc")]
        block = hpack.Encoder().encode([*headers, ("grpc-timeout", "5S")])
        data = request if isinstance(request, bytes) else schema.encode(request)
        self._answers[self._stream] = bytearray()
        self.send_bytes(
            encode_frame(FrameType.HEADERS, END_HEADERS, self._stream, block)
            + encode_frame(FrameType.DATA, END_STREAM if ends else 0, self._stream, b"\0" + len(data).to_bytes(4, "big") + data)
        )  # fmt: skip
        return self._stream

    def _read(self) -> None:
        self.pump()
        while len(self.output) >= 9 and len(self.output) >= 9 + (size := int.from_bytes(self.output[:3], "big")):
            kind, flags, stream = self.output[3], self.output[4], int.from_bytes(self.output[5:9], "big")
            payload = bytes(self.output[9 : 9 + size])
            del self.output[: 9 + size]
            if kind == FrameType.DATA:
                self._answers[stream] += payload
            elif kind == FrameType.HEADERS:
                fields = dict(self._decoder.decode(payload))
                if flags & END_STREAM:
                    self.trailers[stream] = fields

    def _messages(self, stream: int) -> list[bytes]:
        data, found = bytes(self._answers[stream]), []
        while data:
            size = int.from_bytes(data[1:5], "big")
            found.append(data[5 : 5 + size])
            data = data[5 + size :]
        return found

    async def finish(self, stream: int) -> list[bytes]:
        self._read()
        while stream not in self.trailers:
            await self.wait_woken()
            self._read()
        return self._messages(stream)

    async def first(self, stream: int) -> bytes:
        self._read()
        while not self._messages(stream):
            await self.wait_woken()
            self._read()
        return self._messages(stream)[0]

    async def ask(self, method: str, response: str, **fields: Any) -> Any:
        (data,) = await self.finish(self.begin(method, schema.new(f"{method}Request", **fields)))
        return schema.decode(response, data)

    async def send(self, topic: str, body: bytes = b"x", **system: Any) -> Any:
        properties = {"message_id": "01", "queue_id": 0, "message_type": MessageType.NORMAL, **system}
        content = {"topic": {"name": topic}, "body": body, "system_properties": properties}
        return await self.ask("SendMessage", "SendMessageResponse", messages=[content])

    async def receive(self, group: str, topic: str, seconds: int = 0, **fields: Any) -> tuple[list[Any], Any]:
        """Messages, and the status."""
        request = {"group": {"name": group}, "message_queue": {"topic": {"name": topic}}, "batch_size": 16}
        request |= {"invisible_duration": {"seconds": 10}, "long_polling_timeout": {"seconds": seconds}, **fields}
        found = await self.finish(self.begin("ReceiveMessage", schema.new("ReceiveMessageRequest", **request)))
        answers = [schema.decode("ReceiveMessageResponse", data) for data in found]
        return [one.message for one in answers if one.HasField("message")], answers[-1].status


@with_broker
async def test_a_message_is_sent_received_and_acknowledged(broker: Broker) -> None:
    client = GrpcClient(broker)
    route = await client.ask("QueryRoute", "QueryRouteResponse", topic={"name": "t"})
    assert len(route.message_queues) == 8
    assert route.message_queues[3].id == 3
    assert route.message_queues[0].broker.endpoints.addresses[0].port == 8081
    sent = await client.send("t", b"body", tag="a", keys=["k1", "k2"], queue_id=2)
    assert sent.status.code == sent.entries[0].status.code == Code.OK
    (message,), status = await client.receive("g", "t", 5)
    system = message.system_properties
    assert (message.body, system.tag, list(system.keys), system.queue_id) == (b"body", "a", ["k1", "k2"], 2)
    assert status.code == Code.OK
    entry = {"message_id": system.message_id, "receipt_handle": system.receipt_handle}
    acknowledge = {"group": {"name": "g"}, "topic": {"name": "t"}, "entries": [entry]}
    assert (await client.ask("AckMessage", "AckMessageResponse", **acknowledge)).status.code == Code.OK
    again = await client.ask("AckMessage", "AckMessageResponse", **acknowledge)
    assert again.status.code == again.entries[0].status.code == Code.INVALID_RECEIPT_HANDLE
    assert (await client.receive("g", "t"))[1].code == Code.MESSAGE_NOT_FOUND


@with_broker
async def test_what_is_given_up_is_a_dead_letter(broker: Broker) -> None:
    client = GrpcClient(broker)
    await client.send("t", b"body", tag="a")
    (message,), _ = await client.receive("g", "t", 5)
    handle = message.system_properties.receipt_handle
    request = {"group": {"name": "g"}, "topic": {"name": "t"}, "receipt_handle": handle}
    method = "ForwardMessageToDeadLetterQueue"
    assert (await client.ask(method, "StatusResponse", **request)).status.code == Code.OK
    assert (await client.ask(method, "StatusResponse", **request)).status.code == Code.INVALID_RECEIPT_HANDLE
    (letter,), _ = await client.receive("reader", "%DLQ%g", 5)
    assert (letter.body, letter.system_properties.tag) == (b"body", "a")


@with_broker
async def test_the_last_attempt_makes_a_dead_letter(broker: Broker) -> None:
    client = GrpcClient(broker, delivery_attempts_max=2)
    await client.send("t", b"body")
    for attempt in (1, 2):
        (message,), _ = await client.receive("g", "t", 5)
        assert message.system_properties.delivery_attempt == attempt
        request = {"group": {"name": "g"}, "topic": {"name": "t"}}
        request |= {"receipt_handle": message.system_properties.receipt_handle, "invisible_duration": {"seconds": 0}}
        changed = await client.ask("ChangeInvisibleDuration", "ChangeInvisibleDurationResponse", **request)
        assert changed.status.code == Code.OK
    (letter,), _ = await client.receive("reader", "%DLQ%g", 5)
    assert letter.body == b"body"
    assert (await client.receive("g", "t"))[1].code == Code.MESSAGE_NOT_FOUND


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
        ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"keys": [" "]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"message_group": "g" * 65, "message_type": MessageType.FIFO}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "g"}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"message_type": MessageType.DELAY}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"message_type": MessageType.LITE}, Code.NOT_IMPLEMENTED),
        ({"queue_id": 99}, Code.BAD_REQUEST),
        ({"body_digest": {"type": 1, "checksum": "00000000"}}, Code.MESSAGE_CORRUPTED),
        ({"body_encoding": 2}, Code.MESSAGE_CORRUPTED),
    ],
)
def test_a_wrong_message_is_refused_by_its_code(system: dict[str, Any], code: Code) -> None:
    @with_broker
    async def check(broker: Broker) -> None:
        client = GrpcClient(broker, message_bytes_max=1_000)
        assert (await client.send("t", b"x", **system)).status.code == code
        assert (await client.send("t", b"x" * 1_001)).status.code == Code.MESSAGE_BODY_TOO_LARGE
        assert (await client.send("bad topic")).status.code == Code.ILLEGAL_TOPIC
        assert (await client.send("t")).status.code == Code.OK

    check()


@with_broker
async def test_calls_with_wrong_contents_are_answered(broker: Broker) -> None:
    client = GrpcClient(broker)
    for method in ("PullMessage", "UpdateOffset", "SyncLiteSubscription"):
        (data,) = await client.finish(client.begin(method, b""))
        assert schema.decode("StatusResponse", data).status.code == Code.NOT_IMPLEMENTED
    broken = client.begin("SendMessage", b"\xff\xff")
    assert await client.finish(broken) == []
    assert client.trailers[broken]["grpc-status"] == "3"
    assert (await client.ask("SendMessage", "SendMessageResponse")).status.code == Code.BAD_REQUEST
    assert (await client.ask("QueryRoute", "QueryRouteResponse")).status.code == Code.ILLEGAL_TOPIC
    unknown = {"group": {"name": "g"}, "topic": {"name": "t"}, "entries": [{"receipt_handle": "x"}]}
    assert (await client.ask("AckMessage", "AckMessageResponse", **unknown)).status.code == Code.INVALID_RECEIPT_HANDLE
    assert (await client.ask("RecallMessage", "RecallMessageResponse", topic={"name": "t"}, recall_handle="x")).status.code == Code.BAD_REQUEST  # fmt: skip  # noqa: E501
    _, status = await client.receive("g", "t", invisible_duration={"seconds": 1})
    assert status.code == Code.ILLEGAL_INVISIBLE_TIME
    _, status = await client.receive("bad group", "t")
    assert status.code == Code.ILLEGAL_CONSUMER_GROUP
    _, status = await client.receive("g", "t", filter_expression={"type": 2, "expression": "a =="})
    assert status.code == Code.ILLEGAL_FILTER_EXPRESSION


@with_broker
async def test_filters_are_applied_before_messages_are_given(broker: Broker) -> None:
    client = GrpcClient(broker)
    for size in ("1", "5", "9"):
        properties = [{"key": "size", "value": size}]
        content = {"topic": {"name": "t"}, "body": size.encode(), "user_properties": properties}
        content["system_properties"] = {"message_id": size, "queue_id": 0, "message_type": 1, "tag": "a"}
        await client.ask("SendMessage", "SendMessageResponse", messages=[content])
    chosen = {"type": 2, "expression": "size BETWEEN 4 AND 8 OR TAGS = 'b'"}
    (message,), _ = await client.receive("g", "t", 5, filter_expression=chosen)
    assert message.body == b"5"
    assert (await client.receive("g", "t", filter_expression=chosen))[1].code == Code.MESSAGE_NOT_FOUND
    found, _ = await client.receive("other", "t", 5, filter_expression={"type": 1, "expression": "a || b"})
    assert len(found) == 3


@with_broker
async def test_a_message_group_keeps_its_order_and_stops_no_other(broker: Broker) -> None:
    client = GrpcClient(broker)
    for number, group in enumerate(["a", "a", "b"]):
        sent = await client.send("t", b"%d" % number, message_group=group, message_type=MessageType.FIFO)
        assert sent.status.code == Code.OK
    (first,), _ = await client.receive("g", "t", 5, batch_size=1)
    assert first.body == b"0"
    (other,), _ = await client.receive("g", "t", 5)
    assert (other.body, other.system_properties.message_group) == (b"2", "b")
    assert (await client.receive("g", "t"))[1].code == Code.MESSAGE_NOT_FOUND, "the second of a waits for the first"
    entry = {"receipt_handle": first.system_properties.receipt_handle}
    await client.ask("AckMessage", "AckMessageResponse", group={"name": "g"}, topic={"name": "t"}, entries=[entry])
    (second,), _ = await client.receive("g", "t", 5)
    assert second.body == b"1"


@with_broker
async def test_a_half_message_is_shown_when_it_is_committed(broker: Broker) -> None:
    client = GrpcClient(broker)
    said = {"client_type": 1, "publishing": {"topics": [{"name": "t"}]}}
    stream = client.begin("Telemetry", schema.new("TelemetryCommand", settings=said), ends=False)
    await client.first(stream)
    half = {"message_type": MessageType.TRANSACTION, "orphaned_transaction_recovery_duration": {"seconds": 60}}
    kept = (await client.send("t", b"kept", **half)).entries[0].transaction_id
    dropped = (await client.send("t", b"dropped", **half)).entries[0].transaction_id
    assert (await client.receive("g", "t"))[1].code == Code.MESSAGE_NOT_FOUND
    for transaction, resolution in ((kept, 1), (dropped, 2)):
        request = {"topic": {"name": "t"}, "transaction_id": transaction, "resolution": resolution}
        assert (await client.ask("EndTransaction", "StatusResponse", **request)).status.code == Code.OK
    (message,), _ = await client.receive("g", "t", 5)
    assert message.body == b"kept"
    half["orphaned_transaction_recovery_duration"] = {"seconds": 0}
    asked = (await client.send("t", b"asked", **half)).entries[0].transaction_id
    while len(client._messages(stream)) < 2:
        await client.wait_woken()
        client._read()
    command = schema.decode("TelemetryCommand", client._messages(stream)[1]).recover_orphaned_transaction_command
    assert (command.transaction_id, command.message.body) == (asked, b"asked")


@with_broker
async def test_who_must_log_in_is_refused(broker: Broker) -> None:
    client = GrpcClient(broker)
    assert (await client.send("t")).status.code == Code.OK
    await broker.access.put(User("anonymous", is_disabled=True))
    assert (await client.send("t")).status.code == Code.UNAUTHORIZED, "the connection that was open too"
    found, status = await client.receive("g", "t")
    assert (found, status.code) == ([], Code.UNAUTHORIZED)
    stream = client.begin("Telemetry", schema.new("TelemetryCommand", settings={"client_type": 2}), ends=False)
    assert await client.finish(stream) == []
    assert client.trailers[stream]["grpc-status"] != "0"


@with_broker
async def test_settings_are_answered(broker: Broker) -> None:
    client = GrpcClient(broker)
    said = {"client_type": 2, "subscription": {"group": {"name": "g"}}, "access_point": {"scheme": 1}}
    stream = client.begin("Telemetry", schema.new("TelemetryCommand", settings=said), ends=False)
    settings = schema.decode("TelemetryCommand", await client.first(stream)).settings
    assert (settings.subscription.receive_batch_size, settings.backoff_policy.max_attempts) == (32, 17)
    assert [one.seconds for one in settings.backoff_policy.customized_backoff.next][:2] == [10, 30]
    said = {"client_type": 1, "publishing": {"topics": [{"name": "t"}]}}
    stream = client.begin("Telemetry", schema.new("TelemetryCommand", settings=said), ends=False)
    settings = schema.decode("TelemetryCommand", await client.first(stream)).settings
    assert settings.publishing.max_body_size == 4 << 20
    stream = client.begin("Telemetry", schema.new("TelemetryCommand", settings={"client_type": 5}), ends=False)
    await client.finish(stream)
    assert client.trailers[stream]["grpc-status"] == "3"


@with_broker
async def test_a_receive_that_waits_ends_with_its_connection(broker: Broker) -> None:
    client, other = GrpcClient(broker), GrpcClient(broker)
    await client.send("t")
    (message,), _ = await client.receive("g", "t", 5)
    assert message.body == b"x"
    request = {
        "group": {"name": "g"},
        "message_queue": {"topic": {"name": "t"}},
        "long_polling_timeout": {"seconds": 60},
    }
    waiting = client.begin("ReceiveMessage", schema.new("ReceiveMessageRequest", **request))
    client.session.drain()
    (data,) = await client.finish(waiting)
    assert schema.decode("ReceiveMessageResponse", data).status.code == Code.MESSAGE_NOT_FOUND
    assert client.session.finished
    assert (await other.send("t")).status.code == Code.OK


@given(st.sampled_from(sorted(schema.MESSAGES)), st.binary(max_size=100))
def test_garbage_is_refused_or_read(name: str, data: bytes) -> None:
    try:
        schema.decode(name, data)
    except MalformedFrame:
        pass
