"""Every kind of source and sink that a definition can name, on real Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mainstem.spark
from mainstem.pipelines.running.progress import SinkProgress
from mainstem.pipelines.running.run import PipelineRun
from mainstem.pipelines.tables.running import run_table
from mainstem.sdk.http_api import ask
from tests.spark.pipelines.runs import Pipelines
from tests.support.clients.json_topics import rows, send_json
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    broker = Served(tmp_path_factory.mktemp("sources") / "data")
    yield broker
    broker.kill()


@pytest.fixture
def pipelines(served: Served, spark: SparkSession, tmp_path: Path) -> Pipelines:
    return Pipelines(served, tmp_path)


def follow(run: PipelineRun, *acts: tuple[int, Callable[[], None]]) -> None:
    """Runs it, and does the next thing whenever enough rows have come out; the last one ends it."""
    left = list(acts)

    def look(now: SinkProgress) -> None:
        if left and now.rows_out >= left[0][0]:
            left.pop(0)[1]()

    run._watch.on_progress = look
    run.execute()
    assert not left


def test_a_topic_as_a_table_is_as_of_each_micro_batch(
    pipelines: Pipelines, served: Served, spark: SparkSession
) -> None:
    """The newest name of each customer, joined to orders as they come. Some are in the topic's files, some in its log."""
    text = """
    name: named
    settings: {trigger: 200 ms}
    sources:
      orders: {topic: orders, format: json, schema: "id BIGINT, customer STRING"}
      customers: {table: customers, format: json, schema: name STRING}
    steps:
      newest:
        sql: SELECT CAST(key AS STRING) AS customer, max_by(value.name, offset) AS name FROM customers GROUP BY key
      named:
        sql: SELECT o.value.id, n.name FROM orders o LEFT JOIN newest n ON o.value.customer = n.customer
    sinks:
      out: {topic: named}
    """
    send_json(served, "customers", [{"id": "a", "name": "Ann"}, {"id": "b", "name": "Bob"}], key="id")
    ask(served.http, "PATCH", "/v1/topics/customers", {"config": {"table": True}})
    run_table(spark, served.kafka, "customers")
    send_json(served, "customers", [{"id": "a", "name": "Anna"}], key="id")
    send_json(served, "orders", [{"id": 1, "customer": "a"}, {"id": 2, "customer": "b"}])
    run = pipelines.open(pipelines.write(text))

    def more() -> None:
        send_json(served, "customers", [{"id": "b", "name": "Bert"}], key="id")
        run_table(spark, served.kafka, "customers")
        send_json(served, "customers", [{"id": "c", "name": "Cid"}], key="id")
        send_json(
            served, "orders", [{"id": 3, "customer": "b"}, {"id": 4, "customer": "c"}, {"id": 5, "customer": "d"}]
        )

    follow(run, (2, more), (5, run.stop))
    assert sorted((row["id"], row.get("name")) for row in rows(served, "named")) == [
        (1, "Anna"),
        (2, "Bob"),
        (3, "Bert"),
        (4, "Cid"),
        (5, None),
    ]


def test_files_beside_a_stream_and_as_a_stream(
    pipelines: Pipelines, served: Served, spark: SparkSession, tmp_path: Path
) -> None:
    """Static CSV joined to a stream of JSON files; into Delta by country, and a table. A second run takes what is new."""
    (tmp_path / "names.csv").write_text("country,name\nde,Germany\nfr,France\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "1.json").write_text('{"id": 1, "country": "de"}\n{"id": 2, "country": "fr"}\n')
    text = """
    name: files
    mode: available-now
    sources:
      names: {files: names.csv, format: csv, options: {header: true}}
      new: {files: new, format: json, schema: "id BIGINT, country STRING", stream: true}
    steps:
      named: {sql: "SELECT new.*, names.name FROM new JOIN names USING (country)"}
    sinks:
      lake: {delta: lake, partitionBy: country}
      kept: {table: kept}
    """
    pipelines.run(text)
    (tmp_path / "new" / "2.json").write_text('{"id": 3, "country": "de"}\n')
    progress = pipelines.run(text)
    assert {name: sink.rows_out for name, sink in progress.sinks.items()} == {"lake": 1, "kept": 1}
    expected = [(1, "de", "Germany"), (2, "fr", "France"), (3, "de", "Germany")]
    lake = mainstem.spark.read_delta(str(tmp_path / "lake"), session=spark)
    kept = mainstem.spark.read_table(str(tmp_path / "kept"), session=spark)
    for frame in (lake, kept):
        assert sorted((row.id, row.country, row.name) for row in frame.collect()) == expected
    assert {path.name for path in (tmp_path / "lake").glob("country=*")} == {"country=de", "country=fr"}
    # both are tables that the next pipeline reads
    send_json(served, "asked", [{"id": n} for n in range(1, 4)])
    pipelines.run(
        """
    name: looked-up
    mode: available-now
    sources:
      asked: {topic: asked, format: json, schema: id BIGINT}
      lake: {files: lake, format: delta}
      kept: {files: kept, format: table}
    steps:
      found:
        sql: |
          SELECT value.id, lake.country, kept.name
          FROM asked JOIN lake ON lake.id = value.id JOIN kept ON kept.id = value.id
    sinks:
      out: {topic: answered}
    """
    )
    assert sorted((row["id"], row["country"], row["name"]) for row in rows(served, "answered")) == expected


def test_all_of_an_aggregation_with_each_micro_batch(
    pipelines: Pipelines, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    name: totals
    mode: available-now
    settings: {spark: {spark.sql.shuffle.partitions: 1}}
    sources:
      sold: {topic: sold, format: json, schema: "country STRING, amount BIGINT"}
    steps:
      totals: {sql: "SELECT value.country, sum(value.amount) AS amount FROM sold GROUP BY value.country"}
    sinks:
      all: {topic: totals, key: country, output: complete}
      seen: {console: true, output: complete}
    """
    send_json(served, "sold", [{"country": "de", "amount": 1}, {"country": "fr", "amount": 2}])
    pipelines.run(text)
    send_json(served, "sold", [{"country": "de", "amount": 10}])
    progress = pipelines.run(text)
    assert progress.sinks["all"].state_rows == 2
    assert progress.sinks["all"].state_bytes > 0
    found = [(row["country"], row["amount"]) for row in rows(served, "totals")]
    assert [sorted(found[:2]), sorted(found[2:])] == [[("de", 1), ("fr", 2)], [("de", 11), ("fr", 2)]]
    printed = capsys.readouterr().out
    assert "seen, batch 1: 2 rows" in printed
    assert "|     de|    11|" in printed
