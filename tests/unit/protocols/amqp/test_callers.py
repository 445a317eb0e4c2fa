"""What a connection may do ends with its user."""

import asyncio

import pytest

from mainstem.broker.administration import Permission, User
from mainstem.broker.broker import Broker
from mainstem.broker.users import logins
from tests.support.clients.amqp_client import Client, Connect, with_adapter

ALL = ("default", ".*", ".*", ".*")


async def say_who(connect: Connect, name: str, password: str = "secret", peer: str = "127.0.0.1") -> Client:
    client = connect(peer)
    client.send_bytes(b"AMQP\x00\x00\x09\x01")
    await client.wait("connection.start")
    response = f"\0{name}\0{password}".encode()
    client.send("connection.start-ok", 0, client_properties={}, mechanism="PLAIN", response=response, locale="en_US")
    return client


async def open_as(connect: Connect, name: str, peer: str = "127.0.0.1") -> Client:
    client = await say_who(connect, name, peer=peer)
    await client.wait("connection.tune")
    client.send("connection.tune-ok", 0, channel_max=10, frame_max=131_072, heartbeat=10)
    await client.ask("connection.open", 0, virtual_host="/")
    await client.ask("channel.open")
    return client


async def make(broker: Broker, name: str, *tags: str, **limits: int) -> None:
    named = {limit.replace("_", "-"): value for limit, value in limits.items()}
    await broker.access.put(User(name, broker.access.passwords.hash("secret"), tags=tags, limits=named))
    await broker.access.put(Permission(name, *ALL))


@with_adapter
async def test_a_deleted_user_is_thrown_out_in_rabbitmqs_words(connect: Connect, broker: Broker) -> None:
    await make(broker, "bob")
    client = await open_as(connect, "bob")
    await broker.access.remove_user("bob")
    client.pump()
    told = await client.wait("connection.close")
    assert (told["reply_code"], told["reply_text"]) == (320, "CONNECTION_FORCED - user 'bob' is deleted")
    assert client.session.finished
    assert broker.access.callers == {}


@with_adapter
async def test_who_loses_the_virtual_host_is_thrown_out(connect: Connect, broker: Broker) -> None:
    await make(broker, "bob")
    client = await open_as(connect, "bob")
    await broker.access.remove([Permission("bob", *ALL)])
    client.pump()
    assert (await client.wait("connection.close"))["reply_code"] == 320


@with_adapter
async def test_an_impersonator_may_publish_in_other_names(connect: Connect, broker: Broker) -> None:
    await make(broker, "bob")
    await make(broker, "proxy", "impersonator")
    proxy = await open_as(connect, "proxy")
    await proxy.ask("confirm.select")
    proxy.publish("nowhere", b"x", user_id="ann")
    await proxy.wait("basic.ack")
    bob = await open_as(connect, "bob")
    await bob.ask("confirm.select")
    bob.publish("nowhere", b"x", user_id="ann")
    assert (await bob.wait("channel.close"))["reply_code"] == 406


@with_adapter
async def test_a_user_has_as_many_connections_as_it_may(connect: Connect, broker: Broker) -> None:
    await make(broker, "bob", max_connections=1)
    first = await open_as(connect, "bob")
    second = await say_who(connect, "bob")
    await second.wait("connection.tune")
    second.send("connection.tune-ok", 0, channel_max=10, frame_max=131_072, heartbeat=10)
    second.send("connection.open", 0, virtual_host="/")
    told = await second.wait("connection.close")
    assert (told["reply_code"], told["reply_text"]) == (
        530,
        "NOT_ALLOWED - connection refused for user 'bob': user connection limit (1) is reached",
    )
    await first.ask("connection.close", 0, reply_code=200, reply_text="", class_id=0, method_id=0)
    await open_as(connect, "bob")


@with_adapter
async def test_a_user_has_as_many_channels_as_it_may_over_all_connections(connect: Connect, broker: Broker) -> None:
    await make(broker, "bob", max_channels=2)
    first = await open_as(connect, "bob")
    await first.ask("channel.open", 2)
    await first.ask("channel.close", 2, reply_code=200, reply_text="", class_id=0, method_id=0)
    second = await open_as(connect, "bob")
    second.send("channel.open", 2)
    told = await second.wait("connection.close")
    words = "number of channels opened for user 'bob' has reached the maximum allowed user limit of (2)"
    assert (told["reply_code"], told["reply_text"]) == (530, f"NOT_ALLOWED - {words}")


def test_who_guesses_waits_and_the_same_user_elsewhere_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAIT_S", 0.01)

    @with_adapter(anybody_from_anywhere=True)
    async def run(connect: Connect, broker: Broker) -> None:
        await make(broker, "bob")
        await make(broker, "ann")
        guessers = [await say_who(connect, "bob", "wrong", "10.0.0.1") for _ in range(300)]
        while broker.logins.delayed["amqp"] + broker.logins.unchecked["amqp"] < 290:  # noqa: ASYNC110 - a thread counts
            await asyncio.sleep(0)
        assert broker.logins.failures["amqp"] == logins.FREE_OF_PAIR
        for guesser in guessers:
            guesser.pump()
        waiting = [guesser for guesser in guessers if not guesser.session.finished]
        assert 0 < len(waiting) == broker.logins.waiting
        await open_as(connect, "bob", "10.0.0.2")
        await open_as(connect, "ann", "10.0.0.1")
        guesser = waiting[0]
        while not guesser.session.finished:
            await guesser.wait_woken()
        assert broker.logins.failures["amqp"] > logins.FREE_OF_PAIR
        for guesser in guessers:
            guesser.session.closed()

    run()
