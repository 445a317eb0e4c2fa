"""Rules of topics in levels over HTTP: set, shown, refused, and kept."""

from mainstem.broker.devices.devices import Devices
from tests.support.clients.http_client import Client, with_client

PATH = "/v1/topic-rules"
DEFAULT = {"filter": "#", "topic": "mqtt", "key": "{topic}", "stored": True}
RULE = {"filter": "sensors/+/reading", "topic": "sensors", "key": "{1}", "stored": True}
LIVE = {"filter": "live/#", "topic": "mqtt", "key": "{topic}", "stored": False}


@with_client
async def test_rules_are_set_shown_and_taken_back(client: Client) -> None:
    assert (await client.get(PATH))["rules"] == [DEFAULT]
    wish = {"rules": [RULE, {"filter": "live/#", "stored": False}]}
    answer = await client.ask("PUT", PATH, wish)
    assert (answer.status, answer.json()["rules"]) == (200, [RULE, LIVE])
    broker = client.broker
    again = Devices(broker.devices.engine, broker.clock, broker.topics, broker.queues, broker.routes)
    await again.load()
    assert [rule.filter for rule in again.rules("default")] == ["sensors/+/reading", "live/#"]
    assert (await client.ask("DELETE", PATH)).status == 204
    assert (await client.get(PATH))["rules"] == [DEFAULT]


@with_client
async def test_rules_that_cannot_be_are_refused(client: Client) -> None:
    for rule in ({"filter": "a/#/b"}, {"filter": "a/+", "key": "{2}"}, {"filter": "a", "topic": "no topic"}):
        answer = await client.ask("PUT", PATH, {"rules": [rule]})
        assert (answer.status, answer.problem) == (400, "invalid-rule"), rule
    answer = await client.ask("PUT", PATH, {"rules": [], "namespace": "nowhere"})
    assert (answer.status, answer.problem) == (404, "unknown-namespace")
    assert (await client.get(PATH))["rules"] == [DEFAULT]
