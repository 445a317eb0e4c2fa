"""From a method to its handler, and from what goes wrong there to the client. What takes longer holds the session."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.model.errors import MainstemError, OwnershipLost, StorageFull
from mainstem.protocols.amqp.codec.methods import BY_NAME, Method
from mainstem.protocols.amqp.errors import CONNECTION_FORCED, AmqpError, ConnectionError_, fail
from mainstem.protocols.amqp.handlers.methods import basic, exchanges, queues
from mainstem.protocols.amqp.handlers.publish import transactions

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

log = logging.getLogger(__name__)

Handler: TypeAlias = "Callable[[Channel, Method], Coroutine[Any, Any, None] | None]"

HANDLERS: dict[str, Handler] = {
    **exchanges.METHODS,
    **queues.METHODS,
    **basic.METHODS,
    **transactions.METHODS,
}
LOOKS_AT_MESSAGES = frozenset({"basic.get", "basic.consume", "queue.declare", "queue.purge", "queue.delete"})
_IDS = {
    name: signature.class_id.to_bytes(2, "big") + signature.method_id.to_bytes(2, "big")
    for name, signature in BY_NAME.items()
}


def id_of(name: str) -> bytes:
    """Class and method, as they stand at the beginning of a frame."""
    return _IDS[name]


def call(channel: Channel, method: Method) -> None:
    """Deal with a method. Raises AmqpError."""
    name = method.name
    handler = HANDLERS.get(name)
    if handler is None:
        if name in ("basic.ack", "basic.nack", "basic.reject"):
            fail(501, f"cannot decode {name}")
        fail(503, "unimplemented method")
    work = _later(channel, handler, method) if _is_to_wait(channel, name) else handler(channel, method)
    if inspect.iscoroutine(work):
        channel.connection.session.hold()
        channel.connection.owed += 1
        channel.connection.node.spawn(_finish(channel, work, method))


def _is_to_wait(channel: Channel, name: str) -> bool:
    """Whether the method looks at queues to which this connection has published something that is not there yet."""
    return name in LOOKS_AT_MESSAGES and channel.connection.session.in_flight_bytes > 0


async def _later(channel: Channel, handler: Handler, method: Method) -> None:
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    channel.connection.when_durable(lambda: stored.set_result(None))
    await stored
    work = handler(channel, method)
    if work is not None:
        await work


async def _finish(channel: Channel, work: Coroutine[Any, Any, None], method: Method) -> None:
    payload = id_of(method.name)
    try:
        await work
    except AmqpError as error:
        channel.fail(error, payload)
    except StorageFull as error:
        channel.fail(ConnectionError_(506, f"the disk is full: {error}"), payload)
    except OwnershipLost as error:
        channel.fail(ConnectionError_(CONNECTION_FORCED, str(error)), payload)
    except MainstemError as error:
        channel.fail(ConnectionError_(541, str(error)), payload)
    except Exception:
        # Ours, met by this method: it costs its connection, not the broker.
        log.exception("%s failed; its connection is closed", method.name)
        channel.fail(ConnectionError_(541, "unexpected error"), payload)
    finally:
        channel.connection.owed -= 1
        channel.connection.session.release()
