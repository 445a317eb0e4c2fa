"""Definitions on real Spark over a real broker."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

import mainstem.spark
from mainstem.pipelines.definition.errors import DefinitionRefused
from mainstem.pipelines.definition.pipeline import Mode
from mainstem.pipelines.running.run import PipelineFailed
from mainstem.pipelines.running.starting import PipelineBusy, locked
from tests.spark.pipelines.runs import Pipelines
from tests.support.clients.json_topics import records, rows, send_json
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    broker = Served(tmp_path_factory.mktemp("pipelines") / "data")
    yield broker
    broker.kill()


@pytest.fixture
def pipelines(served: Served, spark: SparkSession, tmp_path: Path) -> Pipelines:
    return Pipelines(served, tmp_path)


ORDERS = """
    name: orders
    mode: available-now
    sources:
      orders:
        topic: orders
        format: json
        schema: id BIGINT, country STRING, amount STRING
    steps:
      flat:
        sql: |
          SELECT value.id, value.country,
                 CAST(value.amount AS INT) AS amount
          FROM orders
      named:
        python: names.py:with_names
    expectations:
      readable:
        on: orders
        rule: _corrupt IS NULL
        action: dead-letter
        topic: dead.orders
      positive:
        on: flat
        rule: amount > 0
        action: drop
    sinks:
      each: {from: named, topic: named-orders, key: country}
      archive: {from: flat, parquet: archive}
"""
NAMES = """\
from pyspark.sql import functions as F

def with_names(flat, spark):
    names = spark.createDataFrame([("de", "Germany"), ("fr", "France")], "country STRING, name STRING")
    return flat.join(F.broadcast(names), "country", "left")
"""


def test_rules_steps_and_sinks_and_going_on_where_it_was(
    pipelines: Pipelines, served: Served, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    send_json(served, "orders", [{"id": n, "country": "de", "amount": str(n)} for n in range(5)] + [b"not json"])
    progress = pipelines.run(ORDERS)
    assert {name: (sink.rows_in, sink.rows_out) for name, sink in progress.sinks.items()} == {
        "each": (6, 4),
        "archive": (6, 4),
        "readable": (6, 1),
    }
    assert progress.broken == {"readable": 1, "positive": 1}
    (zero,) = [broken for broken in pipelines.broken if broken.rule == "positive"]
    assert '"id":0' in zero.example
    send_json(served, "orders", [{"id": 5, "country": "fr", "amount": "50"}])
    assert pipelines.run(ORDERS).sinks["each"].rows_in == 1
    found = rows(served, "named-orders")
    assert [row["id"] for row in found] == [1, 2, 3, 4, 5]
    assert found[-1] == {"country": "fr", "id": 5, "amount": 50, "name": "France"}
    assert {record.key for record in records(served, "named-orders")} == {b"de", b"fr"}
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "archive")).collect()) == [1, 2, 3, 4, 5]
    (letter,) = records(served, "dead.orders")
    assert letter.value == b"not json"
    headers = dict(letter.headers)
    assert (headers["mainstem-pipeline"], headers["mainstem-rule"]) == (b"orders", b"readable")
    origin = msgspec.json.decode(headers["mainstem-origin"])
    assert (origin["topic"], origin["partition"], origin["offset"], origin["reason"]) == ("orders", 0, 5, "rejected")
    assert origin["error"] == "rule readable: _corrupt IS NULL"
    # a row that Spark cannot take is named, with the line that asked for it
    send_json(served, "orders", [{"id": 6, "country": "fr", "amount": "many"}])
    with pytest.raises(
        PipelineFailed, match=r"p.yml:13: \[CAST_INVALID_INPUT\] The value 'many' of the type \"STRING\""
    ):
        pipelines.run(ORDERS)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("FROM orders", "FROM ordres", "p.yml:14: [TABLE_OR_VIEW_NOT_FOUND] The table or view `ordres`"),
        ("SELECT value.id", "SELECT value.it", "p.yml:12: [FIELD_NOT_FOUND] No such struct field `it`"),
        ("SELECT value.id", "SELEKT value.id", "p.yml:12: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEKT'."),
        ("amount > 0", "amont > 0", "p.yml:25: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        ("key: country", "key: land", "p.yml:28: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
    ],
)
def test_what_spark_refuses_is_told_with_its_line(
    pipelines: Pipelines, served: Served, tmp_path: Path, before: str, after: str, said: str
) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    send_json(served, "orders", [])
    assert before in ORDERS
    with pytest.raises(DefinitionRefused) as caught:
        pipelines.open(pipelines.write(ORDERS.replace(before, after, 1))).check()
    assert said in str(caught.value)
    assert "\tat " not in str(caught.value)


def test_what_python_refuses_is_told_with_its_line(pipelines: Pipelines, tmp_path: Path) -> None:
    path = pipelines.write(ORDERS)
    for code, said in [
        (NAMES.replace('"country", "left"', '"land", "left"'), "names.py:5: [UNRESOLVED"),
        (NAMES.replace("return flat", "return 1\n    flat"), "p.yml:15: the function gave a int"),
        (NAMES.replace("flat, spark", "flatt, spark"), "p.yml:15: the function has a parameter 'flatt'"),
        (NAMES.replace("with_names", "with_name"), "p.yml:15: names.py has no function 'with_names'"),
        ("import nothing_like_it\n", "names.py:1: ModuleNotFoundError"),
    ]:
        (tmp_path / "names.py").write_text(code)
        with pytest.raises(DefinitionRefused) as caught:
            pipelines.open(path).check()
        assert said in str(caught.value)


def test_old_records_through_new_code_into_another_place(
    pipelines: Pipelines, served: Served, spark: SparkSession, tmp_path: Path
) -> None:
    send_json(served, "history", [{"id": n} for n in range(3)])
    time.sleep(0.005)
    middle_ms = time.time_ns() // 1_000_000
    time.sleep(0.005)
    send_json(served, "history", [{"id": n} for n in range(3, 6)])
    text = f"""
    name: again
    mode: batch
    settings:
      from: {_iso(middle_ms)}
    sources:
      history: {{topic: history, format: json, schema: id BIGINT}}
    steps:
      doubled: {{sql: SELECT value.id * 2 AS id FROM history}}
      counted: {{sql: SELECT count(*) AS n FROM doubled}}
    expectations:
      small: {{on: doubled, rule: id < 10, action: warn}}
    sinks:
      elsewhere: {{from: doubled, topic: history-again}}
      kept: {{from: doubled, delta: kept}}
      counts: {{from: counted, parquet: counts}}
    """
    progress = pipelines.run(text)
    assert [row["id"] for row in rows(served, "history-again")] == [6, 8, 10]
    assert progress.broken == {"small": 1}
    assert spark.read.parquet(str(tmp_path / "counts")).collect()[0].n == 3
    # a second run writes again, and not over what is there
    with pytest.raises(PipelineFailed, match="already exists"):
        pipelines.run(text)
    assert len(rows(served, "history-again")) == 6
    # that run goes on with what was left of it: the topic is not written again
    (tmp_path / "counts").rename(tmp_path / "counts-before")
    pipelines.run(text)
    assert len(rows(served, "history-again")) == 6
    assert mainstem.spark.read_delta(str(tmp_path / "kept"), session=spark).count() == 6
    assert spark.read.parquet(str(tmp_path / "counts")).collect()[0].n == 3


def _iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}+00:00"


def test_windows_duplicates_and_totals(pipelines: Pipelines, served: Served, tmp_path: Path) -> None:
    """Watermark and deduplication are declared; totals come in update mode."""
    text = """
    name: windows
    mode: available-now
    sources:
      clicks: {topic: clicks, format: json, schema: "id BIGINT, user STRING, at TIMESTAMP"}
    steps:
      once:
        sql: SELECT value.* FROM clicks
        watermark: at 10 seconds
        deduplicate: [id]
      minutes:
        sql: >
          SELECT window(at, '1 minute').start AS minute, user, count(*) AS clicks
          FROM once GROUP BY window(at, '1 minute'), user
      totals:
        sql: SELECT user, count(*) AS clicks FROM once GROUP BY user
    sinks:
      minutes: {from: minutes, topic: minutes, key: user}
      totals: {from: totals, topic: click-totals, key: user, output: update}
    """
    at = "2030-01-01T00:00:%02dZ"
    send_json(served, "clicks", [{"id": n, "user": "a", "at": at % n} for n in (1, 2, 2, 3)])
    send_json(served, "clicks", [{"id": 9, "user": "b", "at": "2030-01-01T00:05:00Z"}])
    pipelines.run(text)
    # the minute is over by the watermark, and what came twice counts once
    assert [(row["user"], row["clicks"]) for row in rows(served, "minutes")] == [("a", 3)]
    assert sorted((row["user"], row["clicks"]) for row in rows(served, "click-totals")) == [("a", 3), ("b", 1)]


def test_a_stop_ends_after_the_micro_batch(pipelines: Pipelines, served: Served) -> None:
    text = """
    name: steady
    settings: {trigger: 200 ms}
    sources: {steady: {topic: steady, format: string}}
    sinks: {out: {topic: steady-out}}
    """
    send_json(served, "steady", list(range(10)))
    run = pipelines.open(pipelines.write(text))
    seen = threading.Event()
    run._watch.on_progress = lambda progress: seen.set() if progress.rows_out else None
    helper = threading.Thread(target=lambda: (seen.wait(60), run.stop()))
    helper.start()
    run.execute()
    helper.join()
    assert run.progress.sinks["out"].rows_out == 10
    run = pipelines.open(pipelines.write(text), Mode.AVAILABLE_NOW)
    send_json(served, "steady", [10])
    run.execute()
    assert rows(served, "steady-out") == list(range(11))


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(PipelineBusy), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
