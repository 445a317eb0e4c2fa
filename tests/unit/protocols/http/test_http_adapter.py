"""The adapter with its real clock."""

import time
from email.utils import parsedate_to_datetime

from mainstem.wire.http.dates import HttpDate
from tests.support.clients.http_client import Client, with_client


def test_the_date_is_one_that_http_knows() -> None:
    date = HttpDate(time.time)
    assert parsedate_to_datetime(date()).tzname() == "UTC"
    assert date() == date()


@with_client
async def test_the_index_links_to_what_is_there(client: Client) -> None:
    links = (await client.get("/"))["links"]
    operations = {"health", "ready", "metrics", "openapi", "node", "live", "alarms", "connections", "session", "users"}
    things = {"namespaces", "topics", "groups", "queues", "acquisitions", "exchanges", "bindings", "all_consumers"}
    things |= {"redrives", "dead_letters", "topic_rules", "schedules", "recurrences", "stages", "pipelines", "tables"}
    assert set(links) == operations | things
    for path in links.values():
        assert (await client.ask("GET", path)).status == 200
        assert (await client.ask("HEAD", path)).body == b""


@with_client
async def test_the_node_tells_who_it_is(client: Client) -> None:
    await client.create("a")
    node = await client.get("/v1/node")
    assert node == {
        "version": "0",
        "node_id": 1,
        "cluster_id": client.broker.cluster_id,
        "condition": "ready",
        "topics": 1,
        "groups": 0,
        "listeners": [
            {"name": "http", "address": "127.0.0.1:8282", "connections": 2, "received_bytes": 3, "sent_bytes": 4}
        ],
        "advertised": {"http": ["127.0.0.1:8282"]},
        "storage": {"logs": 1.0},
    }
