"""Messages that each have properties of their own, as tasks of Celery do: what publishing and consuming one costs the broker."""

from __future__ import annotations

import asyncio
import uuid

from benchmarks.amqp.flow import consume
from benchmarks.amqp.raw_client import RawClient
from benchmarks.kafka.brokers import mainstem
from benchmarks.report import Figure
from mainstem.protocols.amqp.codec.field_table import Field, Table, text
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method
from mainstem.protocols.amqp.codec.properties import encode_properties

QUEUE = "load"
BODY = bytes(100)
SENT_AT_ONCE = 100
PAYLOAD_BYTES_MAX = 131_064


def _task() -> bytes:
    headers: Table = {
        "lang": text("py"),
        "task": text("shop.tasks.send_receipt"),
        "id": text(str(uuid.uuid4())),
        "eta": Field("void", None),
        "retries": Field("long", 0),
        "timelimit": Field("array", [Field("void", None), Field("void", None)]),
        "root_id": text(str(uuid.uuid4())),
        "argsrepr": text("(42,)"),
        "stamps": Field("table", {}),
    }
    properties = encode_properties(
        {
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "headers": headers,
            "delivery_mode": 2,
            "priority": 0,
            "correlation_id": str(uuid.uuid4()),
            "reply_to": str(uuid.uuid4()),
        }
    )
    method = encode_frame(METHOD, 1, encode_method("basic.publish", routing_key=QUEUE))
    return method + encode_content(1, properties, BODY, PAYLOAD_BYTES_MAX)


async def amqp_properties(parent: str | None, count: int) -> list[Figure]:
    """Processor time of the broker for one message, in both directions."""
    tasks = [_task() for _ in range(count)]
    with mainstem(parent, listener="amqp") as broker:
        client = RawClient(broker)
        client.call("queue.declare", queue=QUEUE, durable=True)
        before = broker.cpu_seconds()
        for start in range(0, count, SENT_AT_ONCE):
            client.send(b"".join(tasks[start : start + SENT_AT_ONCE]))
        client.call("queue.declare", queue=QUEUE, durable=True)  # answered when all of them are there
        published = broker.cpu_seconds()
        consume(broker, QUEUE, len(BODY), count)
        await asyncio.sleep(0.1)
        consumed = broker.cpu_seconds()
    return [
        Figure("AMQP, tasks of Celery, publish and consume, CPU us", (consumed - before) / count * 1e6),
        Figure("AMQP, of which publish, CPU us", (published - before) / count * 1e6),
    ]
