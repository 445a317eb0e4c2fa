"""The methods of class exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.errors import (
    DefaultExchange,
    ExchangeDiffers,
    ExchangeInUse,
    InvalidBinding,
    InvalidExchangeArgument,
    ReservedExchange,
    UnknownExchange,
)
from mainstem.broker.routes import KINDS, Destination, DestinationKind, Exchange, NewExchange
from mainstem.protocols.amqp.codec.methods import Method
from mainstem.protocols.amqp.errors import access_refused, not_found, precondition_failed
from mainstem.protocols.amqp.handlers.permissions import check_exchange, check_key
from mainstem.protocols.amqp.mapping.values import field_of, plain_table
from mainstem.protocols.amqp.mapping.words import exchange_words, inequivalent, plain_name

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

SYSTEM_PREFIX = "amq."


def check_not_default(name: str) -> None:
    """The default exchange is as it is. Raises ChannelError."""
    if not name:
        access_refused("operation not permitted on the default exchange")


async def declare(channel: Channel, method: Method) -> None:
    """exchange.declare."""
    name = plain_name(method["exchange"])
    connection = channel.connection
    words = exchange_words(name, connection.host)
    check_not_default(name)
    if method["passive"]:
        if connection.router.find(name) is None:
            not_found(f"no {words}")
    else:
        check_exchange(connection, "configure", name)
        alternate = method["arguments"].get("alternate-exchange")
        if alternate is not None and alternate.type != "longstr":
            precondition_failed(f"invalid type '{alternate.type}' for arg 'alternate-exchange' in {words}")
        if alternate is not None:
            check_exchange(connection, "read", name)
            check_exchange(connection, "write", alternate.value.decode("utf-8", "replace"))
        wish = NewExchange(
            name,
            method["type"],
            durable=method["durable"],
            auto_delete=method["auto_delete"],
            internal=method["internal"],
            arguments=plain_table(method["arguments"]),
        )
        if wish.kind not in KINDS:
            precondition_failed(f"invalid exchange type '{wish.kind}'")
        known = connection.router.find(name)
        if known is not None:
            _check_equivalent(known, wish, words)
        try:
            await connection.router.declare_exchange(wish)
        except ExchangeDiffers as difference:
            precondition_failed(inequivalent(difference.field, words, difference.wanted, difference.present))
        except ReservedExchange:
            access_refused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        except (DefaultExchange, InvalidExchangeArgument) as error:
            precondition_failed(str(error))
    if not method["nowait"]:
        channel.reply("exchange.declare-ok")


def _check_equivalent(known: Exchange, wish: NewExchange, words: str) -> None:
    pairs = (
        ("type", wish.kind, known.kind),
        ("durable", wish.durable, known.durable),
        ("auto_delete", wish.auto_delete, known.auto_delete),
        ("internal", wish.internal, known.internal),
    )
    for argument, wanted, present in pairs:
        if wanted != present:
            precondition_failed(inequivalent(argument, words, wanted, present))
    mine, theirs = (source.arguments.get("alternate-exchange") for source in (wish, known))
    if mine != theirs:
        if mine is not None and theirs is not None:
            precondition_failed(inequivalent("alternate-exchange", words, mine, theirs))
        shown = [None if value is None else field_of(value) for value in (mine, theirs)]
        precondition_failed(inequivalent("alternate-exchange", words, *shown))


async def delete(channel: Channel, method: Method) -> None:
    """exchange.delete."""
    name = plain_name(method["exchange"])
    words = exchange_words(name, channel.connection.host)
    check_not_default(name)
    if name.startswith(SYSTEM_PREFIX):
        access_refused(f"deletion of system {words} not allowed")
    check_exchange(channel.connection, "configure", name)
    try:
        await channel.connection.router.delete_exchange(name, if_unused=method["if_unused"])
    except UnknownExchange:
        pass  # There is none: just what is wanted.
    except ExchangeInUse:
        precondition_failed(f"{words} in use")
    if not method["nowait"]:
        channel.reply("exchange.delete-ok")


async def bind(channel: Channel, method: Method) -> None:
    """exchange.bind."""
    await _bind(channel, method, adding=True)
    if not method["nowait"]:
        channel.reply("exchange.bind-ok")


async def unbind(channel: Channel, method: Method) -> None:
    """exchange.unbind."""
    await _bind(channel, method, adding=False)
    if not method["nowait"]:
        channel.reply("exchange.unbind-ok")


async def _bind(channel: Channel, method: Method, *, adding: bool) -> None:
    router, host = channel.connection.router, channel.connection.host
    source, target = plain_name(method["source"]), plain_name(method["destination"])
    check_exchange(channel.connection, "write", target)
    check_not_default(target)
    check_not_default(source)
    check_exchange(channel.connection, "read", source)
    check_key(channel.connection, "read", source, method["routing_key"])
    arguments = plain_table(method["arguments"])
    destination = Destination(DestinationKind.EXCHANGE, target)
    try:
        if adding:
            for name in (source, target):
                if router.find(name) is None:
                    not_found(f"no {exchange_words(name, host)}")
            await router.bind(source, destination, method["routing_key"], arguments)
        else:
            await router.unbind(source, destination, method["routing_key"], arguments)
    except UnknownExchange as error:
        if adding:
            not_found(f"no {exchange_words(error.name, host)}")
    except InvalidBinding as error:
        precondition_failed(str(error))


METHODS = {
    "exchange.declare": declare,
    "exchange.delete": delete,
    "exchange.bind": bind,
    "exchange.unbind": unbind,
}
