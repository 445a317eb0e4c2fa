"""Acquisitions over HTTP: taken, pinned, ruled on, settled, released; and measured."""

from typing import Any

from mainstem.broker.queues import DeadLetterTarget, QueueProperties, encode_headers
from tests.support.clients.http_client import Client, with_client
from tests.unit.protocols.http.measured import samples


async def filled(client: Client, *values: bytes) -> None:
    queues = client.broker.queues
    dead = QueueProperties(durable=True)
    await queues.declare("default", "dead", dead)
    target = DeadLetterTarget("", "dead")
    queue = await queues.declare("default", "work", QueueProperties(durable=True, dead_letter=target))
    for value in values:
        queues.outbox.put([queue], encode_headers([]), value)
    await queues.outbox.wait_durable()


async def acquired(client: Client, **wish: Any) -> Any:
    return (await client.ask("POST", "/v1/acquisitions", {"subscription": "work", **wish})).json()["acquisition"]


@with_client
async def test_a_queue_is_acquired_ruled_on_and_settled(client: Client) -> None:
    await filled(client, b"a", b"b", b"c")
    one = await acquired(client, records_max=2)
    assert (one["condition"], one["records"], one["namespace"]) == ("leased", 2, "default")
    path = f"/v1/acquisitions/{one['id']}"
    pinned = (await client.ask("POST", f"{path}/pin")).json()
    (held,) = pinned["held"]
    assert (held["topic"], held["partition"], held["stretches"]) == ("work", 0, [[0, 1, 1]])
    measured = await samples(client)
    assert [measured[f"mainstem_{name}", ()] for name in ("acquisitions", "acquired_records")] == [1, 2]
    verdict = {"acquisition": one["id"], "log": held["log"], "offsets": [1], "verdict": "reject", "reason": "no"}
    wrong = await client.ask("POST", f"{path}/verdicts", {"verdicts": [verdict | {"offsets": [2]}]})
    assert (wrong.status, wrong.problem) == (400, "invalid-verdict")
    await client.ask("POST", f"{path}/verdicts", {"verdicts": [verdict]})
    assert (await client.ask("POST", f"{path}/settle")).json()["condition"] == "settled"
    (letter,) = (await client.get("/v1/queues/dead/messages"))["messages"]
    assert (letter["value"], letter["origin"]["error"]) == ("b", "no")
    assert (await acquired(client, after=one["id"]))["records"] == 1
    gone = await client.ask("POST", f"{path}/settle")
    assert (gone.status, gone.problem) == (404, "unknown-acquisition")
    assert (await client.get("/v1/acquisitions?subscription=work"))["count"] == 1


@with_client
async def test_what_is_released_is_told(client: Client) -> None:
    await filled(client, b"a")
    one = await acquired(client)
    path = f"/v1/acquisitions/{one['id']}"
    assert (await client.ask("POST", f"{path}/release")).json()["condition"] == "released"
    told = await client.ask("POST", f"{path}/pin")
    assert (told.status, told.problem) == (409, "acquisition-released")
    assert (await acquired(client))["records"] == 1


@with_client
async def test_verdicts_need_a_commit_that_settles(client: Client) -> None:
    verdict = {"acquisition": "x", "log": 1, "offsets": [1], "verdict": "reject"}
    commit = {"query": "q", "batch": 0, "stages": [], "verdicts": [verdict]}
    assert (await client.ask("POST", "/v1/stages/commit", commit)).problem == "invalid-content"
    assert (await client.ask("POST", "/v1/stages/commit", commit | {"settles": True})).problem == "invalid-verdict"
