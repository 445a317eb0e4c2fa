"""SQL over topics and over what the broker knows of itself."""

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pyspark.sql import SparkSession

from mainstem.pipelines.sql.session import SqlSession
from mainstem.pipelines.sql.shell import Shell
from mainstem.pipelines.tables.running import run_table
from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition
from tests.spark.sql.everything import Everything


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    broker = Everything(tmp_path_factory.mktemp("sql") / "data")
    yield broker
    broker.kill()


class Asked:
    """What a shell answers."""

    def __init__(self, spark: SparkSession, served: Everything, **schemas: str) -> None:
        self.session = SqlSession(spark, served.address, schemas=schemas)

    def rows(self, statement: str) -> list[Any]:
        out = self.text(statement, "json")
        return [json.loads(line) for line in out.splitlines()]

    def text(self, statement: str, form: str, limit: int | None = None) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(err):
            done = Shell(self.session, out=out, form=form, limit=limit).execute(statement)
        assert done, err.getvalue()
        return out.getvalue()

    def refusal(self, statement: str) -> str:
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            assert not Shell(self.session, out=io.StringIO(), form="table", limit=None).execute(statement)
        return err.getvalue()


@pytest.fixture
def ask(spark: SparkSession, served: Everything) -> Asked:
    return Asked(spark, served)


def test_every_topic_is_a_table(spark: SparkSession, served: Everything, ask: Asked) -> None:
    served.create("orders")
    served.create("web.clicks")
    served.create("a-b")
    served.create("bytes")
    served.send(
        "orders", '{"id": 1, "country": "NL"}', '{"id": 2, "country": "DE"}', '{"id": 3, "country": "NL"}', key=b"k"
    )
    served.send("web.clicks", "plain text")
    served.send("a-b", '{"id": 2, "url": "x"}')
    served.send("bytes", b"\xff\x00")
    found = ask.rows("SELECT value.country, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1")
    assert found == [{"country": "DE", "n": 1}, {"country": "NL", "n": 2}]
    joined = "SELECT o.key, o.offset, b.value.url FROM orders o JOIN `a-b` b ON b.value.id = o.value.id"
    assert ask.rows(joined) == [{"key": "k", "offset": 1, "url": "x"}]
    assert ask.rows("SELECT c.value FROM web.clicks AS c") == [{"value": "plain text"}]
    assert ask.rows("SELECT value FROM bytes") == [{"value": {"base64": "/wA="}}]
    # each statement sees what is there now
    served.send("orders", '{"id": 4, "country": "FR"}')
    assert ask.rows("SELECT count(*) AS n FROM ORDERS") == [{"n": 4}]
    assert ask.rows("SELECT day = date(timestamp) AS same FROM orders LIMIT 1") == [{"same": True}]
    # what was made of a topic stays usable
    ask.text("CREATE TEMPORARY VIEW dutch AS SELECT value.id FROM orders WHERE value.country = 'NL'", "table")
    assert ask.rows("SELECT sum(id) AS s FROM dutch") == [{"s": 4}]
    spark.catalog.dropTempView("dutch")
    assert not spark.catalog.tableExists("orders")
    names = [row["name"] for row in ask.rows("SHOW TABLES")]
    assert {"orders", "web.clicks", "`a-b`", "mainstem.groups"} <= set(names)
    assert ask.rows("DESCRIBE orders")[1]["data_type"] == "struct<id:bigint,country:string>"


def test_values_as_the_topic_or_the_user_says(spark: SparkSession, served: Everything, ask: Asked) -> None:
    served.create("declared", value_format="json", value_schema="id BIGINT, at TIMESTAMP")
    served.send("declared", '{"id": 1, "at": "2030-01-31T12:00:00Z"}', "{")
    assert ask.rows("SELECT value.*, _corrupt FROM declared ORDER BY offset") == [
        {"id": 1, "at": "2030-01-31T12:00:00.000Z", "_corrupt": None},
        {"id": None, "at": None, "_corrupt": "{"},
    ]
    served.create("given")
    served.send("given", "not json")
    told = Asked(spark, served, given="id STRING")
    served.send("given", '{"id": "x"}')
    assert told.rows("SELECT value.id FROM given WHERE _corrupt IS NULL") == [{"id": "x"}]
    served.create("tabled", table=True)
    served.send("tabled", '{"id": 1}')
    run_table(spark, served.address, "tabled")
    served.send("tabled", '{"id": 2}')
    assert ask.rows("SELECT sum(value.id) AS s, count(DISTINCT day) AS days FROM tabled") == [{"s": 3, "days": 1}]
    (table,) = ask.rows("SELECT * FROM mainstem.tables")
    assert (table["topic"], table["rows"], table["lag_messages"]) == ("tabled", 1, 1)


def test_what_the_broker_knows(served: Everything, ask: Asked) -> None:
    served.create("known", 2)
    served.send("known", "a", "b")
    with Client(served.address) as client:
        client.commit("readers", {TopicPartition("known", 0): 1})
    (group,) = ask.rows("SELECT * FROM mainstem.groups WHERE group = 'readers'")
    assert (group["topic"], group["offset"], group["end"], group["lag_messages"]) == ("known", 1, 2, 1)
    later = {"target": {"topic": "known"}, "value": "later", "delay_ms": 3_600_000}
    served.post("/v1/schedules", later)
    (waiting,) = ask.rows("SELECT topic, value, due > current_timestamp() AS waits FROM mainstem.schedule")
    assert waiting == {"topic": "known", "value": "later", "waits": True}
    served.create_host("other")
    reject_one(served, "%2F", b"broken")
    reject_one(served, "other", b"broken there")
    letters = ask.rows("SELECT namespace, reason, queue, lies_in, value FROM mainstem.dead_letters ORDER BY namespace")
    same = {"reason": "rejected", "queue": "work", "lies_in": "dead"}
    assert letters == [
        {"namespace": "default", **same, "value": "broken"},
        {"namespace": "other", **same, "value": "broken there"},
    ]
    ready = ask.rows("SELECT namespace, name, ready FROM mainstem.queues WHERE name = 'dead' ORDER BY namespace")
    assert ready == [{"namespace": space, "name": "dead", "ready": 1} for space in ("default", "other")]
    joined = (
        "SELECT count(*) AS n FROM known k CROSS JOIN mainstem.topics t WHERE t.name = 'known' AND t.partitions = 2"
    )
    assert ask.rows(joined) == [{"n": 2}]


def reject_one(served: Everything, vhost: str, body: bytes) -> None:
    url = pika.URLParameters(f"amqp://{served.amqp}/{vhost}")
    with contextlib.closing(pika.BlockingConnection(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("dead")
        channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        channel.confirm_delivery()
        channel.basic_publish("", "work", body, pika.BasicProperties(headers={"trace": "7"}))
        tag = channel.basic_get("work")[0]
        channel.basic_reject(tag.delivery_tag, requeue=False)
        while not channel.queue_declare("dead", passive=True).method.message_count:
            connection.process_data_events(0.05)


def test_rows_are_inserted_whole_or_not_at_all(served: Everything, ask: Asked) -> None:
    served.create("into", 2)
    ask.text("INSERT INTO into (key, value) VALUES ('a', 'x'), ('b', 'y')", "table")
    ask.text("INSERT INTO into SELECT upper(value) FROM into", "table")
    assert sorted(row["value"] for row in ask.rows("SELECT value FROM into")) == ["X", "Y", "x", "y"]
    assert "2 columns are named" in ask.refusal("INSERT INTO into (key, value) SELECT 1")
    assert "The sink has no column `a`" in ask.refusal("INSERT INTO into SELECT 1 AS a, 2 AS b")
    assert len(ask.rows("SELECT value FROM into")) == 4


def test_results_as_text(ask: Asked) -> None:
    query = "SELECT id, IF(id = 1, NULL, concat('v', id)) AS v, array(id) AS list FROM range(3)"
    assert ask.text(query, "csv") == "id,v,list\n0,v0,[0]\n1,,[1]\n2,v2,[2]\n"
    assert ask.text(query, "table", 2).splitlines() == [
        "id | v    | list",
        "---+------+-----",
        " 0 | v0   | [0]",
        " 1 | NULL | [1]",
        "(2 rows; there are more: --limit shows them, it is 2 now)",
    ]
    assert len(ask.text(query, "json", 1).splitlines()) == 1
    times = "SELECT TIMESTAMP '2030-01-31 12:00:00' AS t, DATE '2030-01-31' AS d, 1.50 AS n, double('NaN') AS f"
    assert ask.rows(times) == [{"t": "2030-01-31T12:00:00.000Z", "d": "2030-01-31", "n": "1.50", "f": "nan"}]


def test_errors_are_one_sentence(ask: Asked) -> None:
    assert ask.refusal("SELECT * FROM nobody") == (
        "error: There is no topic or table 'nobody': \\d, or SHOW TABLES, lists what there is.\n"
    )
    assert "there are mainstem.topics, mainstem.groups" in ask.refusal("SELECT * FROM mainstem.nothing")
    for wrong in ("SELEC 1", "SELECT nothing FROM range(1)", "SELECT assert_true(id < 0) FROM range(1)"):
        said = ask.refusal(wrong)
        assert said.count("\n") == 1, said
        assert "SQLSTATE" not in said
        assert "\tat " not in said


def test_the_shell_reads_statements_over_lines(served: Everything, ask: Asked) -> None:
    served.create("lines")
    served.send("lines", '{"id": 1}')
    typed = iter(["\\format csv", "SELECT", "  1 AS one; SELECT ';' AS", "semi;", "\\limit 1", "SELECT id FROM range(5);",
                  "\\schema lines id STRING", "SELECT typeof(value.id) AS t FROM lines", ";", "\\d lines", "\\q",
                  "SELECT 9;"])  # fmt: skip
    out = io.StringIO()
    Shell(ask.session, out=out, form="table", limit=None).run(lambda prompt: next(typed))
    lines = out.getvalue().splitlines()
    assert lines[:8] == ["one", "1", "semi", ";", "id", "0", "t", "string"]
    assert next(typed) == "SELECT 9;"
