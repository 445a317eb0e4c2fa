"""Tables over HTTP: what their manifests say, and what the log has beside them."""

import tempfile
from pathlib import Path

from mainstem.pipelines.tables.manifest import Gap, Manifest, TableFile
from mainstem.pipelines.tables.store import TableStore
from tests.support.clients.http_client import NOW_MS, Client, with_client


@with_client
async def test_a_table_that_nobody_has_written_yet(client: Client) -> None:
    await client.create("plain")
    await client.create("kept", 2, table=True)
    await client.publish("kept", NOW_MS)
    page = await client.get("/v1/tables")
    assert [table["topic"] for table in page["tables"]] == ["kept"]
    table = await client.get("/v1/tables/kept")
    topic_id = (await client.get("/v1/topics/kept"))["id"]
    assert table["location"] == f"/nowhere/tables/kept/{topic_id}"
    assert (table["version"], table["rows"], table["lag_messages"]) == (None, 0, 1)
    assert table["partitions"][0] == {"partition": 0, "table_end": None, "end": 1}
    assert (await client.ask("GET", "/v1/tables/plain")).problem == "unknown-topic"
    assert (await client.ask("GET", "/v1/tables/nobody")).problem == "unknown-topic"


@with_client
async def test_what_the_manifest_says(client: Client) -> None:
    with tempfile.TemporaryDirectory() as directory:
        await _check_shown(client, directory)


async def _check_shown(client: Client, directory: str) -> None:
    await client.create("kept", table=True, table_location=directory)
    await client.publish("kept", NOW_MS, NOW_MS, NOW_MS)
    location = (await client.get("/v1/tables/kept"))["location"]
    files = [TableFile("a", 2, 10), TableFile("b", 1, 20)]
    manifest = Manifest(0, "{}").followed_by(now_ms=7, added=files, ends={0: 2}, gaps=[Gap(0, 0, 1)])
    TableStore(location).commit(manifest)
    TableStore(location).commit(manifest.followed_by(now_ms=8))
    table = await client.get("/v1/tables/kept")
    assert table["partitions"] == [{"partition": 0, "table_end": 2, "end": 3}]
    del table["partitions"]
    assert table == (await client.get("/v1/tables"))["tables"][0]
    shown = {name: table[name] for name in ("version", "rows", "bytes", "files", "lag_messages", "gaps", "written_ms")}
    assert shown == {
        "version": 2, "rows": 3, "bytes": 30, "files": 2, "lag_messages": 1, "gaps": 1, "written_ms": 8,
    }  # fmt: skip
    (Path(location) / "manifests" / "00000000000000000003.jsonl").write_bytes(b"garbage\n")
    assert (await client.get("/v1/tables/kept"))["version"] is None


@with_client
async def test_a_table_where_the_broker_cannot_look(client: Client) -> None:
    await client.create("far", table=True, table_location="s3://bucket/far")
    table = await client.get("/v1/tables/far")
    assert (table["version"], table["lag_messages"]) == (None, None)


@with_client
async def test_formats_are_set_together(client: Client) -> None:
    await client.create("typed", **{"value.format": "json", "value.schema": "id BIGINT"})
    alone = await client.ask("PATCH", "/v1/topics/typed", {"config": {"value.format": None}})
    assert (alone.status, alone.problem) == (400, "invalid-config")
    both = await client.ask("PATCH", "/v1/topics/typed", {"config": {"value.format": None, "value.schema": None}})
    assert both.status == 200
