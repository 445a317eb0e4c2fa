"""One connection over a broker in memory: login, receipts, acknowledgements, transactions, destinations, errors, heart-beats."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.coordination.administration.entries import Permission, User
from mainstem.model.endpoints import ClientCertificate, Endpoints
from tests.support.clients.stomp_client import Client, Connect, with_stomp


async def error_of(client: Client) -> str:
    frame = await client.wait("ERROR")
    assert client.session.finished
    return frame.headers["message"]


async def drained(client: Client, count: int) -> list[str]:
    return [(await client.wait("MESSAGE")).body.decode() for _ in range(count)]


@with_stomp
async def test_a_client_is_told_version_session_and_heart_beats(connect: Connect, broker: Broker) -> None:
    for accepted, chosen in (("1.0,1.1,1.2", "1.2"), ("1.1,2.0", "1.1"), ("1.0", "1.0")):
        client = connect()
        client.send("STOMP", accept_version=accepted, login="guest", passcode="guest", heart_beat="1500,200")
        connected = (await client.wait("CONNECTED")).headers
        assert (connected["version"], connected["heart-beat"]) == (chosen, "1000,1000")
        assert connected["session"]
        client.session.closed()
    assert not broker.access.callers


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"accept_version": "2.0"}, "Version mismatch"),
        ({"login": "guest", "passcode": "wrong"}, "Bad CONNECT"),
        ({"login": "nobody", "passcode": "guest"}, "Bad CONNECT"),
        ({"host": "nowhere"}, "Bad CONNECT"),
        ({"heart_beat": "1"}, "Invalid header"),
    ],
)
def test_who_may_not_come_in_is_told_why(headers: dict[str, str], message: str) -> None:
    @with_stomp
    async def run(connect: Connect, broker: Broker) -> None:
        client = connect()
        client.send("CONNECT", **headers)
        assert await error_of(client) == message

    run()


@with_stomp
async def test_without_a_login_it_is_the_default_user_and_from_elsewhere_it_is_nobody(
    connect: Connect, broker: Broker
) -> None:
    client = connect()
    client.send("CONNECT", accept_version="1.2", host="broker.example")  # its name, as the standard recommends
    await client.wait("CONNECTED")
    stranger = connect("192.0.2.1")
    stranger.send("CONNECT", accept_version="1.2")
    assert await error_of(stranger) == "Bad CONNECT"


@with_stomp
async def test_without_a_login_it_is_who_the_certificate_names(connect: Connect, broker: Broker) -> None:
    await broker.access.set_password(User("ann"), "secret")
    await broker.access.put(Permission("ann", DEFAULT_NAMESPACE, ".*", ".*", ".*"))
    for user, command in (("ann", "CONNECTED"), ("bob", "ERROR"), ("guest", "ERROR")):
        client = connect()
        client.session.connection.endpoints = Endpoints(  # type: ignore[attr-defined]
            "192.0.2.1", is_encrypted=True, certificate=ClientCertificate(f"CN={user}", user=user)
        )
        client.send("CONNECT", accept_version="1.2", host="/")
        assert (await client.wait_any()).command == command
    assert set(broker.access.callers) == {"ann"}


@with_stomp
async def test_the_first_frame_is_connect(connect: Connect, broker: Broker) -> None:
    client = connect()
    client.send("SEND", b"x", destination="/queue/a")
    assert await error_of(client) == "Illegal command"


@with_stomp(implicit_connect=True)
async def test_connect_may_be_left_out_where_that_is_set(connect: Connect, broker: Broker) -> None:
    client = connect()
    client.version = "1.0"
    client.send("SUBSCRIBE", destination="/queue/a")
    client.send("SEND", b"x", destination="/queue/a")
    assert await drained(client, 1) == ["x"]


@with_stomp
async def test_a_receipt_says_that_all_before_is_stored(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    for number in range(20):
        client.send("SEND", b"%d" % number, destination="/queue/a", receipt=f"r{number}")
    assert [(await client.wait("RECEIPT")).headers["receipt-id"] for _ in range(20)] == [f"r{n}" for n in range(20)]
    queue = broker.queues.find(DEFAULT_NAMESPACE, "a")
    assert queue is not None
    assert queue.ready_count == 20
    assert queue.properties.durable
    client.send("DISCONNECT", receipt="bye")
    assert (await client.wait("RECEIPT")).headers["receipt-id"] == "bye"
    await client.turns()
    assert client.session.finished


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_deliveries_are_acknowledged_one_by_one_or_up_to_one(version: str) -> None:
    @with_stomp
    async def run(connect: Connect, broker: Broker) -> None:
        client = connect()
        await client.open(version)
        name = "ack" if version == "1.2" else "message-id"
        header = "id" if version == "1.2" else "message-id"
        for mode, left in (("client", 1), ("client-individual", 3)):
            destination = f"/queue/{mode}"
            client.send("SUBSCRIBE", destination=destination, id=mode, ack=mode)
            for number in range(4):
                client.send("SEND", b"%d" % number, destination=destination)
            got = [await client.wait("MESSAGE") for _ in range(4)]
            client.send("ACK", **{header: got[2].headers[name], "subscription": mode})
            client.send("UNSUBSCRIBE", id=mode)
            await client.receipt()
            queue = broker.queues.find(DEFAULT_NAMESPACE, mode)
            assert queue is not None
            assert queue.unsettled_count == left
            client.send("ACK", **{header: got[3].headers[name], "subscription": mode})
            await client.receipt()
            assert queue.unsettled_count == left - 1

    run()


@with_stomp
async def test_a_nack_gives_back_or_gives_up(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.send("SUBSCRIBE", destination="/queue/dead", id="d")
    client.send(
        "SUBSCRIBE",
        destination="/queue/a",
        id="a",
        ack="client-individual",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    client.send("SEND", b"x", destination="/queue/b")
    headers = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.send("SEND", b"x", destination="/queue/a", **headers)
    first = await client.wait("MESSAGE")
    client.send("NACK", id=first.headers["ack"])
    second = await client.wait("MESSAGE")
    assert (second.headers["redelivered"], first.headers["redelivered"]) == ("true", "false")
    client.send("NACK", id=second.headers["ack"], requeue="false")
    letter = await client.wait("MESSAGE")
    assert letter.headers["subscription"] == "d"
    assert letter.headers["x-first-death-reason"] == "rejected"
    assert letter.headers["destination"] == "/queue/dead"


@with_stomp
async def test_no_more_is_delivered_than_the_prefetch_count(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.send("SUBSCRIBE", destination="/queue/a", id="a", ack="client-individual", prefetch_count="2")
    for number in range(5):
        client.send("SEND", b"%d" % number, destination="/queue/a")
    got = [await client.wait("MESSAGE") for _ in range(2)]
    await client.receipt()
    assert not client.frames
    client.send("ACK", id=got[0].headers["ack"])
    assert await drained(client, 1) == ["2"]


@with_stomp
async def test_a_transaction_counts_with_its_commit(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.send("SUBSCRIBE", destination="/queue/in", id="in", ack="client")
    client.send("SUBSCRIBE", destination="/queue/out", id="out")
    for number in range(3):
        client.send("SEND", b"%d" % number, destination="/queue/in")
    got = [await client.wait("MESSAGE") for _ in range(3)]
    for name, end in (("lost", "ABORT"), ("kept", "COMMIT")):
        client.send("BEGIN", transaction=name)
        client.send("SEND", name.encode(), destination="/queue/out", transaction=name)
        client.send("ACK", id=got[2].headers["ack"], transaction=name)
        client.send("ACK", id=got[1].headers["ack"], transaction=name)  # covered by the one before
        await client.receipt()
        queue = broker.queues.find(DEFAULT_NAMESPACE, "in")
        assert queue is not None
        assert queue.unsettled_count == 3
        client.send(end, transaction=name, receipt=name)
        frames = {(await client.wait_any()).command for _ in range(2 if end == "COMMIT" else 1)}
        assert frames == ({"RECEIPT", "MESSAGE"} if end == "COMMIT" else {"RECEIPT"})
    assert queue.unsettled_count == 0


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([("SEND", {})], "Missing destination"),
        ([("SEND", {"destination": "/temp-queue/a"})], "Invalid destination"),
        ([("SEND", {"destination": "/exchange/none/k"})], "not_found"),
        ([("SEND", {"destination": "/queue/a", "message-id": "x"})], "Invalid header"),
        ([("SEND", {"destination": "/queue/a", "expiration": "soon"})], "precondition_failed"),
        ([("SEND", {"destination": "/queue/a", "user-id": "somebody"})], "precondition_failed"),
        ([("SEND", {"destination": "/queue/amq.own"})], "access_refused"),
        ([("SEND", {"destination": "/queue/a", "transaction": "t"})], "Bad transaction"),
        ([("SEND", {"destination": "/queue/a", "x-message-ttl": "x"})], "Invalid header"),
        ([("SUBSCRIBE", {"destination": "/amq/queue/none", "id": "a"})], "not_found"),
        ([("SUBSCRIBE", {"destination": "/queue/a", "id": "a", "ack": "maybe"})], "Invalid header"),
        ([("SUBSCRIBE", {"destination": "/queue/a", "id": "a", "selector": "a ="})], "Invalid header"),
        ([("SUBSCRIBE", {"destination": "/topic/a", "durable": "true"})], "Missing Header"),
        ([("SUBSCRIBE", {"destination": "/topic/a", "id": "/temp-queue/x"})], "Invalid id"),
        (
            [("SUBSCRIBE", {"destination": "/queue/a", "id": "a"})] * 2,
            "Duplicated subscription identifier",
        ),
        (
            [
                ("SUBSCRIBE", {"destination": "/queue/a", "id": "a"}),
                ("SUBSCRIBE", {"destination": "/queue/a", "id": "b", "x-max-length": "5"}),
            ],
            "precondition_failed",
        ),
        ([("UNSUBSCRIBE", {"id": "a"})], "No subscription found"),
        ([("UNSUBSCRIBE", {})], "Missing destination or id"),
        ([("ACK", {})], "Missing header"),
        ([("ACK", {"id": "T_a@@other@@1"})], "Invalid header"),
        ([("BEGIN", {})], "Missing transaction"),
        ([("BEGIN", {"transaction": "t"})] * 2, "Bad transaction"),
        ([("COMMIT", {"transaction": "t"})], "Bad transaction"),
        ([("CONNECT", {})], "Illegal command"),
        ([("NONSENSE", {})], "Bad command"),
    ],
)
def test_what_is_wrong_is_told_and_ends_the_connection(frames: list[tuple[str, dict[str, str]]], message: str) -> None:
    @with_stomp
    async def run(connect: Connect, broker: Broker) -> None:
        client = connect()
        await client.open()
        for command, headers in frames:
            client.send(command, b"", **headers, receipt="last")
        while (frame := await client.wait_any()).command == "RECEIPT":
            pass
        assert (frame.command, frame.headers["message"]) == ("ERROR", message)
        assert frame.headers["receipt-id"] == "last"
        assert client.session.finished

    run()


@with_stomp
async def test_what_comes_before_a_wrong_frame_is_stored_and_told(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.send("SEND", b"x", destination="/queue/a", receipt="kept")
    client.send("SEND", b"x", destination="/queue/a", receipt="too")
    client.send("SEND", b"x", destination="/wrong/a")
    assert [(await client.wait_any()).command for _ in range(3)] == ["RECEIPT", "RECEIPT", "ERROR"]


@with_stomp
async def test_topics_and_exchanges_have_queues_of_their_own(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.send("SUBSCRIBE", destination="/topic/a.*", id="t")
    client.send("SUBSCRIBE", destination="/exchange/amq.direct/k", id="e")
    client.send("SUBSCRIBE", destination="/topic/a.#", id="lasting", durable="true", auto_delete="false")
    client.send("SEND", b"one", destination="/topic/a.b", own="1")
    client.send("SEND", b"two", destination="/exchange/amq.direct/k")
    found = {(frame.headers["subscription"], frame.body) for frame in [await client.wait("MESSAGE") for _ in range(3)]}
    assert found == {("t", b"one"), ("lasting", b"one"), ("e", b"two")}
    assert len(list(broker.queues.all(DEFAULT_NAMESPACE))) == 3
    client.send("DISCONNECT", receipt="bye")
    await client.wait("RECEIPT")
    (left,) = broker.queues.all(DEFAULT_NAMESPACE)
    again = connect()
    await again.open()
    again.send("SEND", b"meanwhile", destination="/topic/a.c")
    again.send("SUBSCRIBE", destination="/topic/a.#", id="lasting", durable="true", auto_delete="false")
    assert await drained(again, 1) == ["meanwhile"]
    again.send("UNSUBSCRIBE", id="lasting", durable="true")
    await again.receipt()
    assert left.is_gone


@with_stomp
async def test_a_reply_finds_the_temporary_queue(connect: Connect, broker: Broker) -> None:
    asking, answering = connect(), connect()
    await asking.open()
    await answering.open()
    answering.send("SUBSCRIBE", destination="/queue/service", id="s")
    await answering.receipt()
    for _ in range(2):
        asking.send("SEND", b"?", destination="/queue/service", reply_to="/temp-queue/mine", correlation_id="7")
        asked = await answering.wait("MESSAGE")
        answering.send("SEND", b"!", destination=asked.headers["reply-to"], correlation_id="7")
        reply = await asking.wait("MESSAGE")
        assert (reply.body, reply.headers["subscription"]) == (b"!", "/temp-queue/mine")
        assert reply.headers["correlation-id"] == "7"
    asking.session.closed()
    await answering.turns()
    assert [queue.name for queue in broker.queues.all(DEFAULT_NAMESPACE)] == ["service"]


@with_stomp
async def test_a_selector_takes_what_fits(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    for number in range(4):
        client.send("SEND", b"%d" % number, destination="/queue/a", amount=str(number), type="order")
    selector = "convert_string_expressions:amount >= 2 AND properties.type = 'order'"
    client.send("SUBSCRIBE", destination="/queue/a", id="a", selector=selector)
    assert await drained(client, 2) == ["2", "3"]


@with_stomp
async def test_what_may_not_be_done_is_refused(connect: Connect, broker: Broker) -> None:
    await broker.access.set_password(User("ann"), "secret")
    await broker.access.put(Permission("ann", DEFAULT_NAMESPACE, "^mine", "^(mine|amq.default)", "^mine"))
    for command, destination, is_allowed in (
        ("SEND", "/queue/mine", True),
        ("SUBSCRIBE", "/queue/mine", True),
        ("SEND", "/queue/other", False),
        ("SUBSCRIBE", "/topic/x", False),
        ("SEND", "/topic/x", False),
    ):
        client = connect()
        client.send("CONNECT", accept_version="1.2", login="ann", passcode="secret", host="/")
        await client.wait("CONNECTED")
        client.send(command, destination=destination, id="i", receipt="r")
        frame = await client.wait_any()
        while frame.command == "MESSAGE":
            frame = await client.wait_any()
        assert frame.command == ("RECEIPT" if is_allowed else "ERROR"), (command, destination)
        assert is_allowed or frame.headers["message"] == "access_refused"
        client.session.closed()
    client = connect()
    client.send("CONNECT", accept_version="1.2", login="ann", passcode="secret", host="/")
    await client.wait("CONNECTED")
    await broker.access.remove_user("ann")
    assert await error_of(client) == "connection_forced"


@with_stomp
async def test_a_queue_that_goes_takes_its_subscription_and_not_the_connection(
    connect: Connect, broker: Broker
) -> None:
    client = connect()
    await client.open()
    client.send("SUBSCRIBE", destination="/queue/a", id="a")
    await client.receipt()
    queue = broker.queues.find(DEFAULT_NAMESPACE, "a")
    assert queue is not None
    await broker.queues.delete(queue)
    told = await client.wait("ERROR")
    assert (told.headers["message"], told.headers["subscription"]) == ("Server cancelled subscription", "a")
    await client.receipt()


@with_stomp
async def test_a_client_that_does_not_read_is_given_no_more_than_its_share(connect: Connect, broker: Broker) -> None:
    client, other = connect(), connect()
    await client.open()
    await other.open()
    client.send("SUBSCRIBE", destination="/queue/a", id="a")
    await client.receipt()
    client.is_reading = False
    client.session.output_paused()
    for _ in range(100):
        other.send("SEND", bytes(100_000), destination="/queue/a")
    await other.receipt()
    await other.turns()
    assert sum(map(len, client.session.take_output())) < 1 << 20
    queue = broker.queues.find(DEFAULT_NAMESPACE, "a")
    assert queue is not None
    assert queue.ready_count == 100


@with_stomp
async def test_heart_beats_are_sent_and_missed(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open(heart_beat="2000,2000")
    for now in range(3):
        client.session.time_passed(float(now))
        client.pump()
    assert client.heartbeats >= 1
    client.send_bytes(b"\n")
    for now in range(3, 12):
        client.session.time_passed(float(now))
    assert client.session.finished


@with_stomp(handshake_timeout_ms=1_000)
async def test_who_says_nothing_is_let_go(connect: Connect, broker: Broker) -> None:
    client = connect()
    for now in (0.0, 0.5, 1.5):
        client.session.time_passed(now)
    assert client.session.finished


@with_stomp(consumer_timeout_ms=60_000)
async def test_a_delivery_that_is_never_acknowledged_costs_the_connection(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    client.session.time_passed(1.0)
    client.send("SUBSCRIBE", destination="/queue/a", id="a", ack="client")
    client.send("SEND", b"x", destination="/queue/a")
    await client.wait("MESSAGE")
    client.session.time_passed(60.0)
    assert not client.session.finished
    client.session.time_passed(62.0)
    assert await error_of(client) == "precondition_failed"
    await asyncio.sleep(0)
    queue = broker.queues.find(DEFAULT_NAMESPACE, "a")
    assert queue is not None
    assert queue.ready_count == 1


@with_stomp
async def test_subscriptions_that_have_ended_keep_no_more_than_their_share(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    for number in range(20):
        client.send("SEND", b"%d" % number, destination="/queue/a")
        client.send("SUBSCRIBE", destination="/queue/a", id=str(number), ack="client", prefetch_count="1")
        await client.wait("MESSAGE")
        client.send("UNSUBSCRIBE", id=str(number))
    await client.receipt()
    queue = broker.queues.find(DEFAULT_NAMESPACE, "a")
    assert queue is not None
    assert (queue.unsettled_count, queue.ready_count) == (16, 4)


@with_stomp
async def test_open_transactions_are_bounded_together(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.open()
    body = bytes(7 << 20)
    for number in range(4):
        client.send("BEGIN", transaction=str(number))
        client.send("SEND", body, destination="/queue/a", transaction=str(number))
    assert await error_of(client) == "Transaction too large"
