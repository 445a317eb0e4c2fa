"""Frames that a client should not send: the protocol's answer, and nothing is lost for others."""

import asyncio
from collections.abc import Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.protocols.pulsar.adapter import NAME, PulsarBroker
from mainstem.protocols.pulsar.codec.frames import decode_entry, decode_frame, encode_entry, encode_frame
from mainstem.protocols.pulsar.codec.schema import METADATA, Kind, command
from mainstem.protocols.pulsar.errors import ServerError
from mainstem.protocols.pulsar.session.settings import PulsarSettings
from tests.support.clients.session_client import SessionClient
from tests.support.worlds.brokers import with_broker

ENTRY = encode_entry(METADATA(producer_name="p", sequence_id=1, publish_time=2).SerializeToString(), b"payload")
PATIENCE_S = 30


class Operations:
    listeners: tuple[Any, ...] = ()

    def advertised(self) -> Mapping[str, list[str]]:
        return {NAME: ["127.0.0.1:6650"]}

    def version(self) -> str:
        return "1"

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Any:
        raise NotImplementedError


class Client(SessionClient):
    """Says commands and hears them."""

    def say(self, kind: Kind, entry: bytes = b"", **fields: Any) -> None:
        self.send_bytes(b"".join(bytes(part) for part in encode_frame(command(kind, **fields), entry)))

    async def hear(self, kind: Kind) -> tuple[Any, memoryview]:
        """The next command of this type; others are passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while len(self.output) >= 4 and len(self.output) >= 4 + int.from_bytes(self.output[:4], "big"):
                    end = 4 + int.from_bytes(self.output[:4], "big")
                    said, rest = decode_frame(memoryview(bytes(self.output[4:end])))
                    del self.output[:end]
                    if said.type == kind:
                        return said, rest
                await self.wait_woken()


async def connected(broker: Broker, **settings: Any) -> Client:
    client = Client(PulsarBroker(PulsarSettings(**settings), broker, Operations()).open_session, "127.0.0.1")
    client.say(Kind.CONNECT, client_version="test", protocol_version=21)
    await client.hear(Kind.CONNECTED)
    return client


async def producing(client: Client, topic: str = "t") -> None:
    client.say(Kind.PRODUCER, topic=topic, producer_id=1, request_id=1)
    await client.hear(Kind.PRODUCER_SUCCESS)


@with_broker
async def test_a_wrong_checksum(broker: Broker) -> None:
    client = await connected(broker)
    await producing(client)
    client.say(Kind.SEND, ENTRY[:-1] + b"X", producer_id=1, sequence_id=1)
    said, _ = await client.hear(Kind.SEND_ERROR)
    assert (said.send_error.sequence_id, said.send_error.error) == (1, ServerError.CHECKSUM)
    client.say(Kind.SEND, ENTRY, producer_id=1, sequence_id=2)
    said, _ = await client.hear(Kind.SEND_RECEIPT)
    assert (said.send_receipt.sequence_id, said.send_receipt.message_id.entryId) == (2, 0)


@with_broker
async def test_a_producer_that_never_was(broker: Broker) -> None:
    client = await connected(broker)
    client.say(Kind.SEND, ENTRY, producer_id=7, sequence_id=1)
    assert client.session.finished


@with_broker
async def test_a_producer_that_was_just_closed(broker: Broker) -> None:
    client = await connected(broker)
    await producing(client)
    client.say(Kind.CLOSE_PRODUCER, producer_id=1, request_id=2)
    await client.hear(Kind.SUCCESS)
    client.say(Kind.SEND, ENTRY, producer_id=1, sequence_id=1)
    client.say(Kind.PING)
    await client.hear(Kind.PONG)


@with_broker
async def test_a_batch_that_does_not_hold_what_it_says(broker: Broker) -> None:
    client = await connected(broker)
    await producing(client)
    metadata = METADATA(producer_name="p", num_messages_in_batch=1_000_000, uncompressed_size=7)
    client.say(Kind.SEND, encode_entry(metadata.SerializeToString(), b"payload"), producer_id=1, sequence_id=1)
    assert client.session.finished


@with_broker
async def test_metadata_larger_than_the_frame(broker: Broker) -> None:
    client = await connected(broker)
    await producing(client)
    client.say(Kind.SEND, b"\x7f\xff\xff\xff" + b"x" * 20, producer_id=1, sequence_id=1)
    assert client.session.finished


@with_broker
async def test_a_frame_above_the_limit(broker: Broker) -> None:
    client = await connected(broker, message_bytes_max=1_024)
    client.send_bytes((1_024 + (10 << 10) + 1).to_bytes(4, "big") + b"\x00\x00\x00\x04")
    assert client.session.finished


@with_broker
async def test_nothing_before_connect(broker: Broker) -> None:
    client = Client(PulsarBroker(PulsarSettings(), broker, Operations()).open_session, "127.0.0.1")
    client.say(Kind.LOOKUP, topic="t", request_id=1)
    assert client.session.finished


@with_broker
async def test_unknown_and_foreign_commands(broker: Broker) -> None:
    client = await connected(broker)
    client.say(Kind.SUCCESS, request_id=9)
    said, _ = await client.hear(Kind.ERROR)
    assert (said.error.request_id, said.error.error) == (9, ServerError.NOT_ALLOWED)
    client.say(Kind.UNSUBSCRIBE, consumer_id=5, request_id=10)
    said, _ = await client.hear(Kind.ERROR)
    assert (said.error.request_id, said.error.error) == (10, ServerError.CONSUMER_NOT_FOUND)


@with_broker
async def test_names_that_cannot_be(broker: Broker) -> None:
    client = await connected(broker)
    for topic, code in (
        ("a/b", ServerError.INVALID_TOPIC_NAME),
        ("other://a/b/c", ServerError.INVALID_TOPIC_NAME),
        ("persistent://no/such/t", ServerError.TOPIC_NOT_FOUND),
        ("x" * 10_000, ServerError.INVALID_TOPIC_NAME),
    ):
        client.say(Kind.PRODUCER, topic=topic, producer_id=1, request_id=1)
        said, _ = await client.hear(Kind.ERROR)
        assert said.error.error == code, topic


@with_broker
async def test_permits_are_overdrawn_by_whole_batches_only(broker: Broker) -> None:
    client = await connected(broker)
    await producing(client)
    client.say(Kind.SUBSCRIBE, topic="t", subscription="s", subType=1, consumer_id=3, request_id=2)
    await client.hear(Kind.SUCCESS)
    for sequence in range(4):
        client.say(Kind.SEND, ENTRY, producer_id=1, sequence_id=sequence)
        await client.hear(Kind.SEND_RECEIPT)
    client.say(Kind.FLOW, consumer_id=3, messagePermits=2)
    for entry in range(2):
        said, rest = await client.hear(Kind.MESSAGE)
        assert said.message.message_id.entryId == entry
        assert bytes(decode_entry(rest).payload) == b"payload"
    client.say(Kind.PING)
    await client.hear(Kind.PONG)
    assert not client.output
    client.say(Kind.FLOW, consumer_id=3, messagePermits=0xFFFF_FFFF)
    await client.hear(Kind.MESSAGE)
    await client.hear(Kind.MESSAGE)
    # Identities that were never given out, and of another ledger, settle nothing.
    odd = [{"ledgerId": 77, "entryId": 0}, {"ledgerId": 1, "entryId": 1 << 60}, {"ledgerId": 1, "entryId": 1}]
    client.say(Kind.ACK, consumer_id=3, ack_type=0, message_id=odd, request_id=4)
    said, _ = await client.hear(Kind.ACK_RESPONSE)
    assert not said.ack_response.HasField("error")
    subscription = broker.topic_subscriptions.find("default", "t", "s", 0)
    assert subscription is not None
    assert subscription.queue is not None
    assert subscription.queue.unsettled_count == 3
    client.say(Kind.ACK, consumer_id=3, ack_type=1, message_id=[{"ledgerId": 1, "entryId": 3}], request_id=5)
    said, _ = await client.hear(Kind.ACK_RESPONSE)
    assert said.ack_response.error == ServerError.NOT_ALLOWED
