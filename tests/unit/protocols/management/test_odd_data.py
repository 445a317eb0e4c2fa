"""Arguments and values that JSON, AMQP or the log cannot hold; and every list while odd data is there."""

from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.queues import QueueProperties
from mainstem.broker.routes import Destination, DestinationKind, NewExchange
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.codec.field_table import Field, encode_table
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.protocols.management.codec import encode_json
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.amqp_client import Client, Operations
from tests.support.clients.management_client import Admin, with_admin
from tests.support.worlds.brokers import with_engine

DEEPEST = 32
"""As many levels as AMQP's tables may have here."""
X = "/exchanges/%2F"


def nested(levels: int, kind: str = "list") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"k": value}
    return value


TOO_MUCH = {
    "deep lists": nested(DEEPEST + 1),
    "deep tables": nested(DEEPEST + 1, "table"),
    "60 lists": nested(60),
    "large": 1 << 64,
    "small": -(1 << 63) - 1,
    "beyond a double": 10**400,
    "large in a list": [{"a": 1 << 64}],
    "long name": {"n" * 256: 1},
    "long name in UTF-8": {"ü" * 128: 1},
}


@pytest.mark.parametrize("value", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_what_cannot_be_held_is_refused_wherever_it_is_said(value: Any) -> None:
    arguments = {"a": value}
    queue = {"name": "new", "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    exchange = {"name": "new", "vhost": "/", "type": "direct", "durable": True, "arguments": arguments}
    binding = {"source": "amq.direct", "vhost": "/", "destination": "q", "arguments": arguments}
    message = {"routing_key": "q", "payload": "x"}
    everywhere = [
        ("PUT", "/queues/%2F/new", {"arguments": arguments}),
        ("PUT", f"{X}/new", {"type": "direct", "arguments": arguments}),
        ("POST", "/bindings/%2F/e/amq.direct/q/q", {"routing_key": "k", "arguments": arguments}),
        ("POST", "/bindings/%2F/e/amq.direct/e/amq.topic", {"routing_key": "k", "arguments": arguments}),
        ("PUT", "/policies/%2F/new", {"pattern": "^a", "definition": {"max-length": value}}),
        ("PUT", "/policies/%2F/new", {"pattern": "^a", "definition": {"max-length": 1}, "priority": value}),
        ("PUT", "/operator-policies/%2F/new", {"pattern": "^a", "definition": {"max-length": value}}),
        ("PUT", "/parameters/shovel/%2F/new", {"value": value}),
        ("PUT", "/global-parameters/new", {"value": value}),
        ("PUT", "/users/new", {"password": "x", "tags": value}),
        ("PUT", "/users/new", {"password": "x", "tags": [value]}),
        ("PUT", "/users/new", {"password": "x", "tags": "", "limits": {"max-channels": value}}),
        ("PUT", "/vhosts/new", {"tags": value}),
        ("PUT", "/vhosts/new", {"metadata": {"note": value}}),
        ("PUT", "/vhosts/new", {"description": value}),
        ("PUT", "/vhost-limits/%2F/max-queues", {"value": value}),
        ("PUT", "/user-limits/ann/max-channels", {"value": value}),
        ("POST", f"{X}/amq.default/publish", message | {"properties": {"headers": arguments}}),
        ("POST", f"{X}/amq.default/publish", message | {"properties": {"timestamp": value}}),
        ("POST", f"{X}/amq.default/publish", message | {"properties": {"priority": value}}),
        ("POST", "/queues/%2F/q/get", {"count": value, "ackmode": "ack_requeue_true"}),
        ("POST", "/definitions", {"queues": [queue]}),
        ("POST", "/definitions", {"exchanges": [exchange]}),
        ("POST", "/definitions", {"bindings": [binding]}),
        ("POST", "/definitions", {"global_parameters": [{"name": "new", "value": value}]}),
        ("POST", "/definitions", {"parameters": [{"vhost": "/", "component": "c", "name": "new", "value": value}]}),
        ("POST", "/definitions", {"vhosts": [{"name": "new", "metadata": {"note": value}}]}),
        ("POST", "/definitions/%2F", {"queues": [queue]}),
    ]

    @with_admin
    async def run(admin: Admin) -> None:
        await admin.put("/queues/%2F/q", {})
        await admin.put("/users/ann", {"password": "x", "tags": ""})
        before = await admin.get("/definitions")
        for method, path, content in everywhere:
            reply = await admin.ask(method, path, content)
            assert (reply.status, reply.json()["error"]) == (400, "bad_request"), (path, content, reply.body)
        assert await admin.get("/definitions") == before, "nothing was kept"
        assert (await admin.get("/queues/%2F/q"))["messages"] == 0

    run()


@with_admin
async def test_names_have_a_length(admin: Admin) -> None:
    long = "n" * 256
    await admin.put("/queues/%2F/q", {})
    for path, content in (
        (f"/queues/%2F/{long}", {}),
        (f"{X}/{long}", {}),
        (f"/vhosts/{long}", {}),
        (f"/users/{long}", {"password": "x", "tags": ""}),
        (f"/global-parameters/{long}", {"value": 1}),
        (f"/policies/%2F/{long}", {"pattern": "^a", "definition": {"max-length": 1}}),
    ):
        await admin.put(path, content, 400)
    await admin.post("/bindings/%2F/e/amq.direct/q/q", {"routing_key": long}, 400)
    await admin.post(f"{X}/amq.default/publish", {"routing_key": long, "payload": "", "properties": {}}, 400)


@with_admin
async def test_what_can_just_be_held_is_shown_as_it_was_said(admin: Admin) -> None:
    most = {"a": nested(DEEPEST), "b": (1 << 63) - 1, "c": -(1 << 63), "n" * 255: None, "d": 1.5}
    await admin.put("/queues/%2F/q", {"arguments": most})
    await admin.put(f"{X}/x", {"type": "direct", "arguments": most})
    await admin.post("/bindings/%2F/e/x/q/q", {"arguments": most}, 201)
    await admin.put("/global-parameters/p", {"value": most["a"]})
    publish = {"properties": {"headers": most}, "routing_key": "q", "payload": "x"}
    await admin.post(f"{X}/amq.default/publish", publish)
    (binding,) = await admin.get("/bindings/%2F/e/x/q/q")
    (message,) = await admin.post("/queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_true"})
    shown = [
        (await admin.get("/queues/%2F/q"))["arguments"],
        (await admin.get(f"{X}/x"))["arguments"],
        binding["arguments"],
        most | {"a": (await admin.get("/global-parameters/p"))["value"]},
        message["properties"]["headers"],
    ]
    assert shown == [most] * len(shown)


def test_anything_can_be_encoded() -> None:
    def encoded(value: object) -> Any:
        return msgspec.json.decode(encode_json(200, {"v": value}).body)["v"]

    assert encoded(b"abc") == "abc"
    assert encoded(b"\xff\xfe") == "Not UTF-8, base64 is: //4=", "as RabbitMQ shows it"
    assert encoded("\udcff") == "Not UTF-8, base64 is: /w=="
    assert encoded({"\udcff": 1}) == {"Not UTF-8, base64 is: /w==": 1}
    assert encoded("\ud800") == "?", "of a text that never was bytes"
    assert encoded([float("nan"), float("inf")]) == [None, None]
    assert encode_json(200, 1 << 70).body == str(1 << 70).encode()
    assert encoded({1: {2}}) == {"1": "{2}"}
    assert encode_json(200, nested(5_000)).body.count(b"[") < 200
    assert encode_json(200, nested(5_000, "table")).body.count(b"{") < 200


async def declared_before(broker: Broker) -> None:
    """What a broker took that checked neither depth nor range."""
    for name, levels in (("deep", 60), ("deeper", 300)):
        value = Field("long", 1)
        for _ in range(levels):
            value = Field("array", [value])
        table = encode_table({"x-max-priority": Field("byte", 3), "z": value})
        await broker.queues.declare("default", name, QueueProperties(durable=True, arguments=table, priority_max=3))
        router = broker.routes.of("default")
        await router.declare_exchange(NewExchange(f"x-{name}", arguments={"z": nested(levels)}))
        destination = Destination(DestinationKind.QUEUE, name)
        await router.bind(f"x-{name}", destination, "k", {"z": nested(levels)})


@with_engine
async def test_what_is_stored_already_is_listed(engine: MemoryEngine) -> None:
    await declared_before(await Broker.open(engine, LoopClock()))
    admin = Admin(await Broker.open(engine, LoopClock()))
    assert {row["name"] for row in await admin.get("/queues")} == {"deep", "deeper"}
    assert (await admin.get("/queues/%2F/deep"))["arguments"]["x-max-priority"] == 3
    assert len(await admin.get("/exchanges/%2F")) == 9
    assert len(await admin.get("/bindings")) == 4
    definitions = await admin.get("/definitions")
    assert len(definitions["queues"]) == 2
    await admin.put("/queues/%2F/deep", {"durable": True, "arguments": {"x-max-priority": 3}}, 204)
    client = await Client(AmqpAdapter(AmqpSettings(), admin.broker, Operations())).open()
    await client.ask("queue.declare", queue="deep", durable=True, arguments={"x-max-priority": ("byte", 3)})
    await client.ask("basic.consume", queue="deep")
    for name in ("deep", "deeper"):
        await admin.delete(f"/queues/%2F/{name}")
        await admin.delete(f"{X}/x-{name}")


ODD_FIELDS = {
    "not a number": Field("double", float("nan")),
    "infinite": Field("float", float("inf")),
    "late": Field("timestamp", (1 << 64) - 1),
    "time": Field("timestamp", 1_577_934_245),
    "bytes": Field("binary", b"\xff\xfe"),
    "text": Field("longstr", b"\xff\xfe"),
    "decimal": Field("decimal", (2, 125)),
    "small decimal": Field("decimal", (255, 1)),
    "void": Field("void", None),
    "nested": Field("table", {"a": Field("array", [Field("table", {"b": Field("binary", b"\xff")})])}),
    "name \udcff": Field("table", {"\udcfe": Field("bool", True)}),
    "large": Field("long", (1 << 63) - 1),
    "ü/?#%": Field("longstr", "ü\u2028\0".encode()),
}
ODD_NAMES = ("a/b", "ü 😀", "100%", "a b+c~d", "..", ".", "name\tand\x1b", "?x=1#y", "detailed", "username", "n" * 255)


async def fill(admin: Admin, client: Client) -> None:
    """Odd things, said over HTTP and over AMQP."""
    for name in ODD_NAMES:
        step = quote(name, safe="")
        host = quote(name.replace("/", "|"), safe="")
        await admin.put(f"/vhosts/{host}", {"description": name, "tags": [name]})
        await admin.put(f"/users/{step}", {"password": "x", "tags": [name, "management"]})
        await admin.put(f"/permissions/{host}/{step}", {"configure": ".*", "write": ".*", "read": ".*"})
        await admin.put(f"/topic-permissions/{host}/{step}", {"exchange": name, "write": ".*", "read": ".*"})
        await admin.put(f"/policies/{host}/{step}", {"pattern": ".", "definition": {"max-length": 1 << 40}})
        await admin.put(f"/operator-policies/{host}/{step}", {"pattern": ".", "definition": {"max-length": 1 << 40}})
        await admin.put(f"/parameters/{step}/{host}/{step}", {"value": {name: nested(30)}})
        await admin.put(f"/global-parameters/{step}", {"value": [name, -(1 << 63)]})
        await admin.put(f"/vhost-limits/{host}/max-queues", {"value": 1 << 62}, 204)
        await admin.put(f"/user-limits/{step}/max-channels", {"value": 1 << 62}, 204)
        await admin.put(f"/queues/{host}/{step}", {"arguments": {name: nested(30)}})
        await admin.put(f"/exchanges/{host}/{step}", {"type": "headers", "arguments": {name: nested(30)}})
        between = f"/bindings/{host}/e/{step}/q/{step}"
        await admin.post(between, {"routing_key": name, "arguments": {name: 1}}, 201)
        await admin.post(f"/bindings/{host}/e/{step}/e/amq.topic", {"routing_key": name}, 201)
    for name, field in ODD_FIELDS.items():
        plain = name.encode("utf-8", "replace").decode()
        arguments = {name: field, "a": field}
        await client.ask("queue.declare", queue=plain, durable=True, arguments=arguments)
        await client.ask("exchange.declare", exchange=plain, type="headers", durable=True, arguments=arguments)
        await client.ask("queue.bind", queue=plain, exchange=plain, routing_key=plain, arguments=arguments)
        await client.ask("exchange.bind", source=plain, destination="amq.fanout", routing_key="", arguments=arguments)
        await client.ask("basic.consume", queue=plain, arguments=arguments)
        client.publish("kept", b"\xff", headers=arguments)
    await client.turns()


def paths_with(admin: Admin, names: list[str]) -> set[str]:
    """Every path that can be asked for, with each of the names in it."""
    paths = [path.path for path in admin.adapter.paths if path.method == "GET"]
    paths += ["/queues?sort=arguments.a&page=1", "/queues?name=%C3%BC"]
    return {path.replace("{}", quote(name, safe="")) for path in paths for name in names}


@with_engine
async def test_no_path_fails_for_odd_data(engine: MemoryEngine) -> None:
    """Neither while clients are connected, nor after a restart."""
    admin = Admin(await Broker.open(engine, LoopClock()))
    client = await Client(AmqpAdapter(AmqpSettings(), admin.broker, Operations())).open()
    client.session.client_properties = dict(ODD_FIELDS)
    await client.ask("queue.declare", queue="kept", durable=True)
    await fill(admin, client)
    await declared_before(admin.broker)
    shown = {row["name"]: row["arguments"]["a"] for row in await admin.get("/queues/%2F") if "a" in row["arguments"]}
    assert {name: shown[name] for name in ("time", "bytes", "text", "decimal", "not a number", "void", "nested")} == {
        "time": 1_577_934_245,
        "bytes": "Not UTF-8, base64 is: //4=",
        "text": "Not UTF-8, base64 is: //4=",
        "decimal": 1.25,
        "not a number": None,
        "void": None,
        "nested": {"a": [{"b": "Not UTF-8, base64 is: /w=="}]},
    }
    (row,) = await admin.get("/connections")
    assert row["client_properties"]["bytes"] == shown["bytes"]
    got = await admin.post("/queues/%2F/kept/get", {"count": 50, "ackmode": "ack_requeue_true", "encoding": "auto"})
    assert [message["properties"]["headers"]["a"] for message in got] == [shown[name] for name in shown]
    names = ["/", "deep", *ODD_NAMES, *list(shown)[-2:], row["name"]]
    for asked in (admin, Admin(await Broker.open(engine, LoopClock()))):
        for path in paths_with(asked, names):
            reply = await asked.ask("GET", path)
            assert reply.status in (200, 400, 404, 503), (path, reply.body)
            assert reply.status != 503 or "/health/" in path, (path, reply.body)
            msgspec.json.decode(reply.body)
