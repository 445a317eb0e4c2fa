"""Two protocols of queues side by side: each addresses its own messages, whichever was added last."""

from collections.abc import Mapping

from mainstem.broker.broker import Broker
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.envelopes import Address
from mainstem.broker.queues import DeadLetterTarget, Message, deaths_of, encode_headers, find_header
from mainstem.protocols.amqp.handlers.dialect import introduce
from mainstem.protocols.amqp.mapping.envelope import seal
from tests.support.worlds.brokers import with_broker
from tests.unit.broker.holding import queue


class PostEnvelopes:
    """Addresses stand in a header as they are."""

    def address_of(self, message: Message) -> Address:
        return Address("", ((find_header(message.headers, b"post") or b"").decode(),))

    def headers_of(self, message: Message) -> Mapping[str, object]:
        return {}

    def properties_of(self, message: Message) -> Mapping[str, object]:
        return {"priority": 3}

    def readdressed(self, message: Message, exchange: str, key: str) -> bytes:
        return encode_headers([("post", key.encode())])

    def is_lasting(self, message: Message) -> bool:
        return True


@with_broker
async def test_each_protocol_addresses_its_own_dead_letters(broker: Broker) -> None:
    introduce(broker)
    broker.envelopes.add("post", ["post"], PostEnvelopes())
    introduce(broker)
    dead = await queue(broker, "dead")
    source = await queue(broker, "source", dead_letter=DeadLetterTarget("", "dead"))
    blocks = {
        b"amqp": seal("", "source", b"\0\0", {}, -1),
        b"post": encode_headers([("post", b"letter box")]),
        b"record": encode_headers([("a", b"b")]),
    }
    for value, block in blocks.items():
        broker.queues.outbox.put([source], block, value)
        await broker.queues.outbox.wait_durable()
        message = await take(source)
        assert message is not None
        broker.queues.settling.reject([message])
        await broker.queues.outbox.wait_durable()
    letters = {}
    for _ in blocks:
        letter = await take(dead)
        assert letter is not None
        letters[bytes(letter.value)] = letter
    keys = {value: deaths_of(letter.headers)[0].routing_keys for value, letter in letters.items()}
    assert keys == {b"amqp": ["source"], b"post": ["letter box"], b"record": ["source"]}
    assert broker.envelopes.address_of(letters[b"amqp"]) == Address("", ("dead",))
    assert broker.envelopes.address_of(letters[b"post"]) == Address("", ("dead",))
    assert [broker.envelopes.origin_of(letters[value]) for value in blocks] == ["amqp", "post", None]
    assert broker.dialects.of(letters[b"amqp"]) is broker.dialects.get("amqp")
    assert broker.dialects.of(letters[b"post"]) is None
