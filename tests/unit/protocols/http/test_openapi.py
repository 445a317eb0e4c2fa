"""The OpenAPI document: well formed, complete, and true."""

import re
from pathlib import Path
from typing import Any

from mainstem.broker.queues import QueueProperties, encode_headers
from mainstem.protocols.http.errors import HttpError
from mainstem.protocols.http.handlers.openapi import refusals_of
from mainstem.protocols.http.handlers.routes import Events
from tests.support.clients.http_client import NOW_MS, Client, Reply, with_client
from tests.support.clients.schema_check import mismatches, references, resolve
from tests.unit.protocols.http.measured import behind

PAGE = (Path(__file__).parents[4] / "docs" / "protocols" / "http.md").read_text(encoding="utf-8")
MEMBERS = {"operationId", "summary", "responses", "parameters", "requestBody"}


def check_answer(document: dict[str, Any], path: str, method: str, reply: Reply) -> None:
    """Whether a reply is as the document says."""
    responses = document["paths"][path][method.lower()]["responses"]
    described = responses.get(str(reply.status), responses["default"])
    content = described.get("content")
    if content is None:
        assert reply.body == b""
        return
    media_type = reply.headers["content-type"].partition(";")[0]
    assert media_type in content, f"{method} {path} {reply.status}"
    if media_type not in ("text/plain", "application/octet-stream"):
        assert mismatches(reply.json(), content[media_type]["schema"], document) == []


@with_client
async def test_the_document_is_well_formed(client: Client) -> None:
    document = await client.get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= document["info"].keys()
    identities = []
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation.keys() <= MEMBERS
            assert operation["summary"].endswith(".")
            identities.append(operation["operationId"])
            parameters = operation.get("parameters", [])
            in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))
            assert all(parameter["required"] == (parameter["in"] == "path") for parameter in parameters)
            assert all(response["description"] for response in operation["responses"].values())
    assert len(set(identities)) == len(identities)
    for reference in references(document):
        assert resolve(reference, document)
    used = {reference.rpartition("/")[2] for reference in references(document)}
    assert used == document["components"]["schemas"].keys()


@with_client
async def test_every_route_is_described_with_its_refusals(client: Client) -> None:
    document = await client.get("/openapi.json")
    for route in client.routes:
        responses = document["paths"][route.path][route.method.lower()]["responses"]
        for status in route.answers:
            assert str(status) in responses
        for refusal in refusals_of(route):
            assert f":{refusal.name}`" in responses[str(refusal.status)]["description"]


@with_client
async def test_every_route_answers_as_described(client: Client) -> None:
    document = await client.get("/openapi.json")
    await client.create("t", 2)
    await client.create("kept", table=True)
    await client.publish("t", NOW_MS - 1_000, -1)
    await behind(client, "g", "t", 2)
    queue = await client.broker.queues.declare("default", "q", QueueProperties())
    await client.broker.queues.declare("default", "empty", QueueProperties())
    held = await client.broker.queues.declare("default", "held", QueueProperties(durable=True))
    client.broker.queues.outbox.put([held], encode_headers([]), b"v")
    got = await client.broker.queues.declare("default", "got", QueueProperties())
    client.broker.queues.outbox.put([got], encode_headers([("a", b"1")]), b"[1]")
    for _ in range(2):
        client.broker.queues.outbox.put([queue], encode_headers([("a", b"1")]), b"v")
    await client.broker.queues.outbox.wait_durable()
    taken = await client.ask("POST", "/v1/acquisitions", {"subscription": "held"})
    acquisition = "/v1/acquisitions/" + taken.json()["acquisition"]["id"]
    later = {"target": {"topic": "t"}, "due_ms": 4_000_000_000_000, "value": "v"}
    ids = [(await client.ask("POST", "/v1/schedules", later)).json()["id"] for _ in range(2)]
    daily = {"target": {"exchange": "x"}, "cron": "@daily"}
    await client.ask("PUT", "/v1/recurrences/r", daily)
    await client.ask("POST", "/v1/queues/q/redrive", {"limit": 1, "origin": "nowhere"})
    bound = await client.ask("POST", "/v1/bindings", {"exchange": "amq.fanout", "queue": "q"})
    deployed = {"definition": "name: p"}
    beat = {"incarnation": "i", "room": 9}
    await client.ask("PUT", "/v1/pipelines/p", deployed)
    orders = (await client.ask("POST", "/v1/workers/w/beat", beat)).json()
    epoch = orders["pipelines"][0]["epoch"]
    asked = {
        ("PUT", "/v1/pipelines/{name}"): [
            ("/v1/pipelines/p", deployed),
            ("/v1/pipelines/new", deployed),
            ("/v1/pipelines/new", {"definition": "", "files": {"../x": ""}}),
        ],
        ("POST", "/v1/pipelines/{name}/progress"): [
            ("/v1/pipelines/p/progress", {"epoch": epoch, "run": "r", "sinks": [{"sink": "s", "rows_in": 1}]}),
            ("/v1/pipelines/p/progress", {"epoch": epoch + 1, "run": "r"}),
            ("/v1/pipelines/nobody/progress", {"epoch": epoch, "run": "r"}),
            ("/v1/pipelines/at-a-terminal/progress", {"epoch": 0, "run": "r", "sinks": [{"sink": "s"}]}),
        ],
        ("POST", "/v1/workers/{worker}/beat"): [("/v1/workers/w/beat", beat), ("/v1/workers/w/beat", {})],
        ("GET", "/v1/trace/{id}"): [("/v1/trace/t:0:0", None), ("/v1/trace/t:9:0", None), ("/v1/trace/a?by=b", None)],
        ("GET", "/v1/queues/{name}/seek"): [("/v1/queues/q/seek?offset=0", None), ("/v1/queues/q/seek", None)],
        ("GET", "/v1/topics/{name}/partitions/{partition}"): [
            ("/v1/topics/t/partitions/0", None),
            ("/v1/topics/t/partitions/0?offset=0", None),
            ("/v1/topics/t/partitions/9", None),
            ("/v1/topics/t/partitions/x", None),
        ],
        ("POST", "/v1/topics"): [
            ("/v1/topics", {"name": "new", "config": {"retention.ms": 1}}),
            ("/v1/topics", {"name": "new"}),
            ("/v1/topics", {"name": "new", "config": {"x": 1}}),
            ("/v1/topics", {}),
        ],
        ("GET", "/v1/topics/{name}/follow"): [("/v1/topics/t/follow?partition=9", None)],
        ("POST", "/v1/topics/{name}/records"): [
            (
                "/v1/topics/t/records",
                {"records": [{"value": [1]}, {"text": "a", "headers": {"b": None}, "after_ms": 9}]},
            ),
            ("/v1/topics/t/records", {"records": []}),
            ("/v1/topics/nobody/records", {"records": [{}]}),
        ],
        ("POST", "/v1/queues"): [
            ("/v1/queues", {"name": "made", "dead_letter_queue": "q"}),
            ("/v1/queues", {"name": "made"}),
            ("/v1/queues", {}),
        ],
        ("PUT", "/v1/topic-rules"): [
            ("/v1/topic-rules", {"rules": [{"filter": "a/+", "topic": "sensors"}]}),
            ("/v1/topic-rules", {"rules": [{"filter": "#/a", "topic": "sensors"}]}),
            ("/v1/topic-rules", {"rules": [], "namespace": "none"}),
        ],
        ("PUT", "/v1/alarms/rules/{name}"): [
            ("/v1/alarms/rules/r", {"measure": "dead_letters", "above": 1}),
            ("/v1/alarms/rules/r", {"measure": "x", "above": 1}),
        ],
        ("GET", "/v1/topics/{name}/consumers"): [("/v1/topics/t/consumers", None), ("/v1/topics/none/consumers", None)],
        ("POST", "/v1/topics/{name}/request"): [
            ("/v1/topics/t/request?timeout_ms=1", {"value": 1}),
            ("/v1/topics/none/request", {"value": 1}),
        ],
        ("POST", "/v1/exchanges"): [
            ("/v1/exchanges", {"name": "made", "kind": "topic"}),
            ("/v1/exchanges", {"name": "made", "kind": "fanout"}),
            ("/v1/exchanges", {"name": "amq.x"}),
        ],
        ("GET", "/v1/exchanges/{name}"): [("/v1/exchanges/amq.direct", None), ("/v1/exchanges/x", None)],
        ("DELETE", "/v1/exchanges/{name}"): [("/v1/exchanges/made", None), ("/v1/exchanges/x", None)],
        ("POST", "/v1/bindings"): [
            ("/v1/bindings", {"exchange": "amq.direct", "queue": "q", "routing_key": "k"}),
            ("/v1/bindings", {"exchange": "amq.direct"}),
            ("/v1/bindings", {"exchange": "x", "queue": "q"}),
        ],
        ("DELETE", "/v1/bindings/{id}"): [(f"/v1/bindings/{bound.json()['id']}", None), ("/v1/bindings/x", None)],
        ("GET", "/v1/connections/{id}"): [("/v1/connections/kafka-1", None), ("/v1/connections/x-9", None)],
        ("DELETE", "/v1/connections/{id}"): [("/v1/connections/kafka-2", None), ("/v1/connections/x-9", None)],
        ("DELETE", "/v1/alarms/rules/{name}"): [("/v1/alarms/rules/r", None), ("/v1/alarms/rules/r", None)],
        ("POST", "/v1/groups/{name}/seek"): [
            ("/v1/groups/g/seek", {"to": "end", "dry_run": True}),
            ("/v1/groups/x/seek", {"to": "end"}),
            ("/v1/groups/g/seek", {}),
        ],
        ("POST", "/v1/queues/{name}/receive"): [("/v1/queues/got/receive", {"max": 1}), ("/v1/queues/x/receive", {})],
        ("POST", "/v1/queues/{name}/settle"): [
            ("/v1/queues/got/settle", {"accept": ["x"]}),
            ("/v1/queues/x/settle", {}),
        ],
        ("PATCH", "/v1/topics/{name}"): [("/v1/topics/t", {"partitions": 3}), ("/v1/topics/t", {"partitions": 1})],
        ("POST", "/v1/stages/commit"): [
            ("/v1/stages/commit", {"query": "q", "batch": 1, "stages": []}),
            ("/v1/stages/commit", {"query": "q", "batch": 0, "stages": []}),
            ("/v1/stages/commit", {"query": "q", "batch": 2, "stages": [{"task": 0, "attempt": "a", "end": 1}]}),
        ],
        ("POST", "/v1/stages/abort"): [
            ("/v1/stages/abort", {"query": "q", "batch": 1, "stages": [{"task": 0, "attempt": "a"}]}),
        ],
        ("POST", "/v1/acquisitions"): [
            ("/v1/acquisitions", {"subscription": "held"}),
            ("/v1/acquisitions", {"subscription": "nothing"}),
            ("/v1/acquisitions", {"subscription": "s", "topics": ["nothing"]}),
        ],
        ("POST", "/v1/acquisitions/ends"): [("/v1/acquisitions/ends", {"subscription": "held"})],
        ("GET", "/v1/acquisitions/{id}"): [(acquisition, None), ("/v1/acquisitions/x", None)],
        ("GET", "/v1/acquisitions/{id}/batches/{log}"): [
            (f"{acquisition}/batches/{held.logs[0]}", None),
            (f"{acquisition}/batches/{held.logs[0]}?offset=9", None),
            (f"{acquisition}/batches/0", None),
        ],
        ("POST", "/v1/acquisitions/{id}/pin"): [(f"{acquisition}/pin", None), ("/v1/acquisitions/x/pin", None)],
        ("POST", "/v1/acquisitions/{id}/read"): [(f"{acquisition}/read", {"query": "q", "batch": 0})],
        ("POST", "/v1/acquisitions/{id}/verdicts"): [
            (f"{acquisition}/verdicts", {"verdicts": []}),
            (
                f"{acquisition}/verdicts",
                {"verdicts": [{"acquisition": "x", "log": 1, "offsets": [], "verdict": "retry"}]},
            ),
        ],
        ("POST", "/v1/acquisitions/{id}/settle"): [(f"{acquisition}/settle", None)],
        ("POST", "/v1/acquisitions/{id}/release"): [(f"{acquisition}/release", None)],
        ("GET", "/v1/tables/{name}"): [("/v1/tables/kept", None), ("/v1/tables/t", None), ("/v1/tables/x", None)],
        ("GET", "/v1/schedules/{id}"): [(f"/v1/schedules/{ids[0]}", None), ("/v1/schedules/x", None)],
        ("PATCH", "/v1/schedules/{id}"): [(f"/v1/schedules/{ids[0]}", {"delay_ms": 9}), ("/v1/schedules/x", {})],
        ("DELETE", "/v1/schedules/{id}"): [(f"/v1/schedules/{ids[1]}", None), ("/v1/schedules/x", None)],
        ("POST", "/v1/schedules"): [("/v1/schedules", later), ("/v1/schedules", {})],
        ("GET", "/v1/recurrences/{name}"): [("/v1/recurrences/r", None), ("/v1/recurrences/x", None)],
        ("PUT", "/v1/recurrences/{name}"): [
            ("/v1/recurrences/r", daily),
            ("/v1/recurrences/r", daily | {"cron": "never"}),
        ],
        ("DELETE", "/v1/recurrences/{name}"): [("/v1/recurrences/r", None), ("/v1/recurrences/r", None)],
        ("PATCH", "/v1/queues/{name}"): [("/v1/queues/q", {"paused": False}), ("/v1/queues/x", {"paused": False})],
        ("POST", "/v1/queues/{name}/seek"): [
            ("/v1/queues/q/seek", {"offset": 0}),
            ("/v1/queues/q/seek", {"offset": 99}),
        ],
        ("POST", "/v1/queues/{name}/redeliver"): [
            ("/v1/queues/q/redeliver", {"messages": [{"offsets": [0]}]}),
            ("/v1/queues/q/redeliver", {"messages": [{"offsets": [-1]}]}),
        ],
        ("POST", "/v1/queues/{name}/redrive"): [("/v1/queues/q/redrive", {}), ("/v1/queues/x/redrive", {})],
        ("PATCH", "/v1/queues/{name}/messages/{place}"): [
            ("/v1/queues/q/messages/0:0", {"value": "x"}),
            ("/v1/queues/q/messages/0:9", {}),
        ],
        ("DELETE", "/v1/queues/{name}/messages/{place}"): [
            ("/v1/queues/q/messages/0:2", None),
            ("/v1/queues/q/messages/0:2", None),
        ],
        ("POST", "/v1/queues/{name}/purge"): [("/v1/queues/empty/purge", None), ("/v1/queues/x/purge", None)],
        ("GET", "/v1/redrives/{number}"): [("/v1/redrives/1", None), ("/v1/redrives/99", None)],
        ("DELETE", "/v1/redrives/{number}"): [("/v1/redrives/1", None), ("/v1/redrives/99", None)],
        ("DELETE", "/v1/queues/{name}"): [("/v1/queues/made", None), ("/v1/queues/made", None)],
        ("DELETE", "/v1/topics/{name}"): [("/v1/topics/t", None), ("/v1/topics/t", None)],
        ("POST", "/v1/session"): [
            ("/v1/session", {"user": "guest", "password": "guest"}),
            ("/v1/session", {"user": "guest", "password": "wrong"}),
        ],
        ("POST", "/v1/users"): [
            ("/v1/users", {"name": "ann", "password": "secret"}),
            ("/v1/users", {"name": "ann"}),
            ("/v1/users", {"name": "bob", "limits": {"x": 1}}),
        ],
        ("PATCH", "/v1/users/{name}"): [("/v1/users/ann", {"roles": ["x"]}), ("/v1/users/nobody", {})],
        ("DELETE", "/v1/users/{name}/sessions"): [
            ("/v1/users/guest/sessions", None),
            ("/v1/users/nobody/sessions", None),
        ],
    }
    routes = sorted(client.routes, key=lambda route: route.method == "DELETE")
    for route in routes:
        name = {"groups": "g", "queues": "q", "pipelines": "p", "users": "ann"}.get(
            route.path.split("/")[2] if route.path.count("/") > 1 else "", "t"
        )
        usual = [(route.path.replace("{name}", name), None), (route.path.replace("{name}", "nobody"), None)]
        statuses = []
        for path, content in asked.get((route.method, route.path), usual):
            reply = await client.ask(route.method, path, content)
            check_answer(document, route.path, route.method, reply)
            statuses.append(reply.status)
        is_unanswered = route.path.endswith("/request")  # Nobody replies here.
        assert statuses[0] == route.status or Events in route.answers.values() or is_unanswered, route.path


# The page for people


@with_client
async def test_every_route_is_on_the_page(client: Client) -> None:
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(rows) == sorted(f"{route.method} {route.path}" for route in client.routes)


def test_every_problem_is_on_the_page_with_its_status() -> None:
    def kinds(base: type[HttpError]) -> set[type[HttpError]]:
        return {base}.union(*(kinds(kind) for kind in base.__subclasses__()))

    documented = set()
    for status, names in re.findall(r"^\| (\d{3}) \| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", PAGE, flags=re.MULTILINE):
        documented |= {(int(status), name) for name in re.findall(r"`([a-z-]+)`", names)}
    assert documented == {(kind.status, kind.name) for kind in kinds(HttpError)}


@with_client
async def test_every_measurement_of_ours_is_on_the_page(client: Client) -> None:
    text = (await client.ask("GET", "/metrics")).body.decode()
    names = re.findall(r"^# TYPE (mainstem_\w+)", text, flags=re.MULTILINE)
    assert names
    for name in names:
        assert f"`{name}`" in PAGE
