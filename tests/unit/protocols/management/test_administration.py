"""Users, permissions, virtual hosts, policies, parameters, definitions."""

import asyncio
import base64
import hashlib
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.users import logins
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.amqp_client import Client, Operations
from tests.support.clients.http_client import request_bytes
from tests.support.clients.management_client import Admin, FixedOperations, with_admin
from tests.support.clients.session_driver import Driver
from tests.support.worlds.brokers import with_engine


@with_admin
async def test_who_is_let_in(admin: Admin) -> None:
    for user in (None, "guest:wrong", "nobody:guest", "guest"):
        reply = await admin.ask("GET", "/overview", user=user)
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith("Basic")
    outside = Admin(admin.broker, FixedOperations("10.0.0.5"))
    assert (await outside.ask("GET", "/overview", host="10.0.0.5")).status == 401, "guest is for this machine"
    await admin.put("/users/guest", {"password": "guest", "tags": "administrator"}, 204)
    assert (await admin.ask("GET", "/overview")).status == 200
    assert (await outside.ask("GET", "/overview", host="10.0.0.5")).status == 401, "one who was made, too"
    assert (await admin.ask("GET", "/overview", host="evil.example")).status == 421


@with_admin
async def test_a_virtual_host_may_be_protected(admin: Admin) -> None:
    """As `rabbitmqadmin vhosts enable_deletion_protection` asks."""
    await admin.put("/vhosts/shop", {"description": "d"})
    assert (await admin.get("/vhosts/shop"))["protected_from_deletion"] is False
    assert (await admin.ask("POST", "/vhosts/shop/deletion/protection")).status == 204
    assert (await admin.ask("POST", "/vhosts/none/deletion/protection")).status == 404
    row = await admin.get("/vhosts/shop")
    assert row["protected_from_deletion"] is row["metadata"]["protected_from_deletion"] is True
    assert row["description"] == "d"
    await admin.delete("/vhosts/shop", 412)
    await admin.put("/vhosts/shop", {"description": "still", "metadata": {"tags": []}}, 204)
    await admin.delete("/vhosts/shop", 412)
    definitions = await admin.get("/definitions")
    assert [each["metadata"]["protected_from_deletion"] for each in definitions["vhosts"][1:]] == [True]
    await admin.delete("/vhosts/shop/deletion/protection")
    await admin.delete("/vhosts/shop")


@with_admin
async def test_a_hash_tells_how_it_was_made(admin: Admin) -> None:
    """`rabbitmqadmin users declare --hashing-algorithm SHA512` sends nothing but the hash."""
    for hashing, digest in (("sha256", hashlib.sha256), ("sha512", hashlib.sha512)):
        stored = base64.b64encode(b"salt" + digest(b"saltsecret").digest()).decode()
        await admin.put(f"/users/{hashing}", {"password_hash": stored, "tags": "monitoring"})
        assert (await admin.get("/nodes", user=f"{hashing}:secret"))[0]["running"] is True
    await admin.put("/users/none", {"password_hash": "c2hvcnQ=", "tags": ""}, 400)


@with_admin
async def test_who_makes_a_virtual_host_may_use_it(admin: Admin) -> None:
    await admin.put("/users/root", {"password": "secret", "tags": "administrator"})
    assert (await admin.ask("PUT", "/queues/%2F/q", {}, user="root:secret")).status == 401
    assert (await admin.ask("PUT", "/vhosts/shop", {}, user="root:secret")).status == 201
    assert (await admin.ask("PUT", "/queues/shop/q", {}, user="root:secret")).status == 201
    assert (await admin.get("/permissions/shop/root"))["configure"] == ".*"


@with_admin
async def test_definitions_are_taken_over_whoever_may_do_what(admin: Admin) -> None:
    await admin.put("/users/root", {"password": "secret", "tags": "administrator"})
    taken = {
        "vhosts": [{"name": "shop"}],
        "exchanges": [{"name": "x", "vhost": "shop", "type": "topic", "durable": False}],
        "queues": [
            {"name": "q", "vhost": "shop", "durable": False, "auto_delete": False, "arguments": {}},
            {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
        ],
        "bindings": [
            {"source": "x", "vhost": "shop", "destination": "q", "destination_type": "queue", "routing_key": "k"}
        ],
    }
    reply = await admin.ask("POST", "/definitions", taken, user="root:secret")
    assert reply.status == 204, reply.body
    given = await admin.get("/definitions")
    assert [(row["vhost"], row["name"], row["durable"]) for row in given["queues"]] == [
        ("/", "q", True),
        ("shop", "q", False),
    ], "those that end with the broker too"
    assert [row["name"] for row in given["exchanges"]] == ["x"]
    assert [(row["source"], row["destination"]) for row in given["bindings"]] == [("x", "q")]


@with_admin
async def test_guest_may_do_everything(admin: Admin) -> None:
    """Scripts permit it what it may do already; a new password takes none of it away."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    await admin.put("/vhosts/shop", {})
    await admin.put("/permissions/shop/guest", everything, 204)
    await admin.put("/permissions/none/guest", everything, 400)
    row = {"user": "guest", "vhost": "shop", **everything}
    assert await admin.get("/permissions/shop/guest") == row
    assert await admin.get("/vhosts/shop/permissions") == [row]
    assert await admin.get("/users/guest/permissions") == [row | {"vhost": "/"}, row]
    await admin.put("/users/guest", {"password": "guest", "tags": "administrator"}, 204)
    assert await admin.get("/users/guest/permissions") == [row | {"vhost": "/"}, row]
    await admin.put("/permissions/shop/guest", everything | {"read": "^a"}, 204)
    assert (await admin.get("/permissions/shop/guest"))["read"] == "^a"
    await admin.delete("/permissions/shop/guest")
    assert await admin.get("/permissions") == [row | {"vhost": "/"}]


@with_admin
async def test_the_permission_on_one_topic_exchange_is_removed_alone(admin: Admin) -> None:
    await admin.put("/users/ann", {"password": "secret", "tags": ""})
    for exchange in ("amq.topic", "other"):
        await admin.put("/topic-permissions/%2F/ann", {"exchange": exchange, "write": "^a", "read": ".*"})
    await admin.delete("/topic-permissions/%2F/ann/amq.topic")
    await admin.delete("/topic-permissions/%2F/ann/amq.topic", 404)
    assert [row["exchange"] for row in await admin.get("/topic-permissions/%2F/ann")] == ["other"]


@with_admin
async def test_users_and_what_they_may_do(admin: Admin) -> None:
    await admin.put("/vhosts/shop", {"description": "a shop", "tags": "x,y", "default_queue_type": "quorum"})
    await admin.put("/vhosts/default", {}, 400)
    await admin.put("/users/ann", {"password": "secret", "tags": "management"})
    await admin.put("/users/pol", {"password": "secret", "tags": ["policymaker"]})
    await admin.put("/users/mute", {"password": "secret", "tags": ""})
    await admin.put("/users/nohow", {"tags": "administrator"})
    assert (await admin.ask("GET", "/overview", user="nohow:")).status == 401
    await admin.delete("/users/nohow")
    await admin.put("/users/mon", {"password": "secret", "tags": "monitoring"})
    assert (await admin.ask("GET", "/nodes", user="mon:secret")).status == 200
    for path in ("/users", "/users/mon", "/permissions", "/topic-permissions", "/user-limits"):
        assert (await admin.ask("GET", path, user="mon:secret")).status == 401, "hashes are not for everybody"
    await admin.delete("/users/mon")
    await admin.put("/users/bad", {"password_hash": "xx", "tags": ""}, 400)
    await admin.put("/permissions/shop/ann", {"configure": "^own", "write": ".*", "read": "^own"})
    await admin.put("/permissions/shop/nobody", {"configure": "", "write": "", "read": ""}, 400)
    await admin.put("/permissions/shop/ann", {"configure": "(", "write": "", "read": ""}, 400)
    await admin.put("/topic-permissions/shop/ann", {"exchange": "amq.topic", "write": "^a", "read": ".*"})

    assert (await admin.ask("GET", "/overview", user="mute:secret")).status == 401
    assert [row["name"] for row in await admin.get("/vhosts", user="ann:secret")] == ["shop"]
    assert (await admin.ask("PUT", "/queues/shop/own-q", {"durable": True}, user="ann:secret")).status == 201
    assert (await admin.get("/queues/shop/own-q"))["type"] == "quorum"
    assert (await admin.ask("PUT", "/queues/shop/other", {}, user="ann:secret")).status == 401
    assert (await admin.ask("GET", "/queues/%2F", user="ann:secret")).status == 401
    for method, path, content in [
        ("GET", "/users", None),
        ("PUT", "/vhosts/mine", {}),
        ("GET", "/definitions", None),
        ("GET", "/nodes", None),
        ("PUT", "/policies/shop/p", {"pattern": "", "definition": {"max-length": 1}}),
        ("PUT", "/users/x", {"password": "x", "tags": ""}),
        ("PUT", "/operator-policies/shop/p", {"pattern": "", "definition": {"max-length": 1}}),
    ]:
        assert (await admin.ask(method, path, content, user="ann:secret")).status == 401, path
    assert {row["name"] for row in await admin.get("/users")} == {"guest", "ann", "pol", "mute"}
    assert [row["name"] for row in await admin.get("/users/without-permissions")] == ["pol", "mute"]
    (row,) = await admin.get("/users/ann/permissions")
    assert row in await admin.get("/vhosts/shop/permissions")
    assert (await admin.get("/topic-permissions/shop/ann"))[0]["exchange"] == "amq.topic"
    await admin.put("/vhost-limits/shop/max-queues", {"value": 5}, 204)
    assert await admin.get("/vhost-limits") == [{"vhost": "shop", "value": {"max-queues": 5}}]
    for number in range(4):
        await admin.put(f"/queues/shop/{number}", {})
    await admin.put("/queues/shop/one-too-many", {}, 400)
    await admin.put("/vhost-limits/shop/max-fun", {"value": 5}, 400)
    await admin.put("/user-limits/ann/max-channels", {"value": 5}, 204)
    assert await admin.get("/user-limits/ann") == [{"user": "ann", "value": {"max-channels": 5}}]
    await admin.delete("/permissions/shop/ann")
    assert await admin.get("/vhosts", user="ann:secret") == []
    await admin.delete("/users/ann")
    assert (await admin.ask("GET", "/overview", user="ann:secret")).status == 401
    await admin.delete("/vhosts/shop")
    assert (await admin.ask("GET", "/queues/shop")).status == 404
    await admin.delete("/vhosts/%2F", 400)


@with_admin
async def test_a_policy_holds_at_once(admin: Admin) -> None:
    await admin.put("/queues/%2F/short", {})
    queue = admin.broker.queues.find("default", "short")
    assert queue is not None
    definition = {"max-length": 2, "overflow": "reject-publish"}
    await admin.put("/policies/%2F/p", {"pattern": "^s", "definition": definition, "priority": 1, "apply-to": "queues"})
    await admin.put("/operator-policies/%2F/o", {"pattern": ".*", "definition": {"max-length": 1}})
    shown = await admin.get("/queues/%2F/short")
    assert (shown["policy"], shown["operator_policy"]) == ("p", "o")
    assert shown["effective_policy_definition"] == {"max-length": 1, "overflow": "reject-publish"}
    assert (queue.rules.length_max, queue.rules.overflow) == (1, "reject-publish")
    publish = {"properties": {}, "routing_key": "short", "payload": "x"}
    routed = [(await admin.post("/exchanges/%2F/amq.default/publish", publish))["routed"] for _ in range(3)]
    assert routed == [True, False, False]
    await admin.put("/queues/%2F/soon", {})
    made_later = admin.broker.queues.find("default", "soon")
    assert made_later is not None
    assert made_later.rules.length_max == 1
    await admin.put("/policies/%2F/bad", {"pattern": "^s", "definition": {"ha-mode": "all"}}, 400)
    await admin.delete("/policies/%2F/p")
    await admin.delete("/operator-policies/%2F/o")
    assert queue.rules.length_max is None
    await admin.delete("/policies/%2F/p", 404)


@with_admin
async def test_parameters(admin: Admin) -> None:
    await admin.put("/parameters/shovel/%2F/mine", {"value": {"src-uri": "amqp://"}})
    await admin.put("/parameters/shovel/%2F/mine", {}, 400)
    await admin.put("/global-parameters/cluster_tags", {"value": {"a": 1}})
    assert (await admin.get("/parameters/shovel/%2F/mine"))["value"] == {"src-uri": "amqp://"}
    assert len(await admin.get("/parameters/shovel")) == len(await admin.get("/parameters")) == 1
    assert (await admin.get("/global-parameters/cluster_tags"))["value"] == {"a": 1}
    await admin.delete("/parameters/shovel/%2F/mine")
    await admin.delete("/global-parameters/cluster_tags")
    await admin.delete("/global-parameters/cluster_tags", 404)


@with_engine
async def test_the_cluster_has_a_name(engine: MemoryEngine) -> None:
    """As `rabbitmqctl set_cluster_name` keeps it."""
    admin = Admin(await Broker.open(engine, LoopClock()))
    first = admin.broker.cluster_id
    at_first = [
        {"name": "cluster_name", "value": first},
        {"name": "internal_cluster_id", "value": f"rabbitmq-cluster-id-{first}"},
    ]
    assert await admin.get("/global-parameters") == at_first
    assert (await admin.get("/definitions"))["global_parameters"] == at_first
    assert await admin.get("/global-parameters/internal_cluster_id") == at_first[1]
    await admin.put("/cluster-name", {"name": "shop"}, 204)
    for wrong in ({}, {"name": 5}, {"name": None}, b"x"):
        await admin.put("/cluster-name", wrong, 400)
    await admin.put("/global-parameters/cluster_name", {"value": 5}, 400)
    await admin.put("/users/pol", {"password": "x", "tags": "policymaker"})
    assert (await admin.ask("PUT", "/cluster-name", {"name": "mine"}, user="pol:x")).status == 401
    for asked in (admin, Admin(await Broker.open(engine, LoopClock()))):
        assert await asked.get("/cluster-name") == {"name": "shop"}
        assert (await asked.get("/overview"))["cluster_name"] == "shop"
        assert await asked.get("/global-parameters/cluster_name") == {"name": "cluster_name", "value": "shop"}
        definitions = await asked.get("/definitions")
        assert (definitions["original_cluster_name"], definitions["global_parameters"][0]["value"]) == ("shop", "shop")
        assert (await asked.get("/definitions/%2F"))["original_vhost_name"] == "/"
        client = Client(AmqpAdapter(AmqpSettings(), asked.broker, Operations()))
        start = await client.greet()
        assert start["server_properties"]["cluster_name"].value == b"shop", "clients are told"
    await admin.delete("/global-parameters/cluster_name")
    await admin.delete("/global-parameters/cluster_name")
    assert await admin.get("/cluster-name") == {"name": first}


DEFINITIONS: dict[str, Any] = {
    "rabbit_version": "3.12.1",
    "users": [
        {
            "name": "ann",
            # test12, as RabbitMQ's documentation hashes it.
            "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {},
        }
    ],
    "vhosts": [
        {"name": "/"},
        {"name": "shop", "metadata": {"description": "a shop", "tags": [], "default_queue_type": "quorum"}},
    ],
    "permissions": [{"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "ann", "vhost": "shop", "exchange": "amq.topic", "write": "^a", "read": ""}],
    "parameters": [
        {
            "component": "operator_policy",
            "vhost": "shop",
            "name": "o",
            "value": {"pattern": ".*", "definition": {"expires": 900_000}, "priority": 2, "apply-to": "queues"},
        },
        {"component": "vhost-limits", "vhost": "shop", "name": "limits", "value": {"max-queues": 9}},
        {"component": "shovel", "vhost": "/", "name": "s", "value": {"a": 1}},
    ],
    "global_parameters": [
        {"name": "cluster_name", "value": "old@shop"},
        {"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-x"},
    ],
    "policies": [
        {
            "vhost": "/",
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 7},
            "priority": 0,
        }
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "/",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "classic", "x-max-priority": 3},
        },
        {"name": "s", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "stream"}},
    ],
    "exchanges": [
        {
            "name": "events",
            "vhost": "/",
            "type": "headers",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
    ],
    "bindings": [
        {
            "source": "events",
            "vhost": "/",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {"x-match": "any", "a": 1},
        },
        {
            "source": "amq.topic",
            "vhost": "/",
            "destination": "events",
            "destination_type": "exchange",
            "routing_key": "#",
            "arguments": {},
        },
    ],
}


def comparable(definitions: dict[str, Any]) -> dict[str, Any]:
    def row(value: Any) -> str:
        return repr(sorted(value.items())) if isinstance(value, dict) else repr(value)

    return {kind: sorted(map(row, rows)) for kind, rows in definitions.items() if isinstance(rows, list)}


@with_engine
async def test_a_brokers_definitions_move_over(engine: MemoryEngine) -> None:
    admin = Admin(await Broker.open(engine, LoopClock()))
    await admin.post("/definitions", DEFINITIONS, 204)
    await admin.post("/definitions", DEFINITIONS, 204)
    assert (await admin.get("/whoami", user="ann:test12"))["tags"] == ["administrator"]
    queue = admin.broker.queues.find("default", "q")
    assert queue is not None
    assert (queue.properties.priority_max, queue.rules.length_max) == (3, 7)
    assert admin.broker.routes.of("default").route("amq.topic", "k", lambda: {"a": 1}).queues == ("q",)
    assert admin.broker.namespaces.get("shop").limits == {"max-queues": 9}
    assert admin.broker.policies.find("shop", "o", is_operators=True).definition == {"expires": 900_000}
    exported = await admin.get("/definitions")
    for kind in ("permissions", "topic_permissions", "policies", "global_parameters", "bindings"):
        assert comparable(exported)[kind] == comparable(DEFINITIONS)[kind], kind
    assert {row["name"] for row in exported["queues"]} == {"q", "s"}
    assert exported["users"][0]["password_hash"] == DEFINITIONS["users"][0]["password_hash"]
    assert {row["component"] for row in exported["parameters"]} == {"operator_policy", "shovel", "vhost-limits"}

    runtime = local_runtime(asyncio.get_running_loop())
    try:
        other = Admin(await Broker.open(MemoryEngine(runtime), LoopClock()))
        await other.post("/definitions", exported, 204)
        assert comparable(await other.get("/definitions")) == comparable(exported)
        one_host = await other.get("/definitions/%2F")
        assert all("vhost" not in row for row in one_host["queues"] + one_host["bindings"])
        await other.put("/vhosts/copy", {})
        await other.post("/definitions/copy", one_host, 204)
        assert [row["name"] for row in await other.get("/queues/copy")] == ["q"]
    finally:
        runtime.close()

    again = Admin(await Broker.open(engine, LoopClock()))
    assert comparable(await again.get("/definitions")) == comparable(exported)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": 5},
        {"queues": [5]},
        {"queues": [{"name": "q"}]},
        {"queues": [{"name": "q", "vhost": "nowhere"}]},
        {"users": [{"name": "x"}]},
        {"exchanges": [{"name": "x", "vhost": "/", "type": "odd"}]},
        {"policies": [{"vhost": "/", "name": "p", "pattern": "("}]},
        {"bindings": [{"source": "none", "vhost": "/", "destination": "none"}]},
    ],
)
def test_definitions_that_cannot_be(wrong: dict[str, Any]) -> None:
    @with_admin
    async def run(admin: Admin) -> None:
        reply = await admin.ask("POST", "/definitions", wrong)
        assert reply.status in (400, 404), reply.body
        assert reply.json()["reason"]

    run()


def test_who_guesses_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAIT_S", 0.01)

    @with_admin
    async def run(admin: Admin) -> None:
        await admin.put("/users/ann", {"password": "secret", "tags": "management"})

        def guess(password: str, host: str) -> Driver:
            driver = Driver(lambda wake: admin.adapter.open_session(wake, Endpoints(host)))
            token = base64.b64encode(f"ann:{password}".encode()).decode()
            driver.feed(request_bytes("/api/whoami", f"Authorization: Basic {token}", host="localhost"))
            driver.pump()
            return driver

        guessers = [guess(f"wrong{number}", "10.0.0.1") for number in range(300)]
        while admin.broker.logins.delayed["management"] + admin.broker.logins.unchecked["management"] < 290:  # noqa: ASYNC110 - a thread counts
            await asyncio.sleep(0)
        for guesser in guessers:
            guesser.pump()
        assert admin.broker.logins.failures["management"] == logins.FREE_OF_PAIR
        waiting = [guesser for guesser in guessers if not guesser.output]
        assert 0 < len(waiting) == admin.broker.logins.waiting
        good = guess("secret", "10.0.0.2")
        while not good.output:
            await asyncio.sleep(0)
            good.pump()
        assert bytes(good.output).startswith(b"HTTP/1.1 200")
        assert not guess("secret", "10.0.0.1").output, "a right guess waits, too"
        while not waiting[0].output:
            await asyncio.sleep(0.01)
            waiting[0].pump()
        assert bytes(waiting[0].output).startswith(b"HTTP/1.1 401")

    run()


@with_admin
async def test_limits_of_users(admin: Admin) -> None:
    await admin.put("/users/ann", {"password": "secret", "tags": ""})
    assert await admin.get("/user-limits/ann") == []
    await admin.put("/user-limits/ann/max-connections", {"value": 5}, 204)
    await admin.put("/user-limits/ann/max-channels", {"value": 7}, 204)
    await admin.put("/user-limits/ann/max-lemons", {"value": 7}, 400)
    await admin.put("/user-limits/bob/max-channels", {"value": 7}, 404)
    row = {"user": "ann", "value": {"max-connections": 5, "max-channels": 7}}
    assert await admin.get("/user-limits") == [row]
    await admin.put("/users/ann", {"password": "other", "tags": ""}, 204)
    assert await admin.get("/user-limits/ann") == [row], "a new password changes no limit"
    assert (await admin.get("/users/ann"))["limits"] == row["value"]
    await admin.delete("/user-limits/ann/max-connections")
    assert await admin.get("/user-limits/ann") == [{"user": "ann", "value": {"max-channels": 7}}]
