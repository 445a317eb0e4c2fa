"""Definitions: what is taken, and what is refused with which words on which line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.definition.errors import DefinitionRefused
from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.parsing import parse_text
from mainstem.pipelines.definition.pipeline import Action, Mode

WHOLE = """\
name: clicks
mode: continuous
settings:
  address: 127.0.0.1:9092
  trigger: 500 ms
  spark:
    spark.sql.shuffle.partitions: 4
    spark.sql.ansi.enabled: true
sources:
  clicks:
    topic: clicks
    format: json
    schema: user STRING, at TIMESTAMP
  users:
    files: users.csv
    format: csv
    options: {header: true}
steps:
  flat:
    sql: |
      SELECT value.*
      FROM clicks
    watermark: at 10 minutes
    deduplicate: [user, at]
  named:
    python: names.py:with_names
    inputs: [flat, users]
expectations:
  has_user:
    on: flat
    rule: user IS NOT NULL
    action: dead-letter
    topic: dead.clicks
sinks:
  out:
    topic: named
    key: user
  archive:
    from: flat
    parquet: out
    partitionBy: day
"""


def problems(text: str) -> list[str]:
    with pytest.raises(DefinitionRefused) as caught:
        parse_text(text, "p.yml")
    return [str(problem) for problem in caught.value.problems]


def changed(before: str, after: str) -> str:
    assert before in WHOLE
    return WHOLE.replace(before, after, 1)


def test_a_whole_definition() -> None:
    found = parse_text(WHOLE, "p.yml")
    assert (found.name, found.mode, found.settings.trigger) == ("clicks", Mode.CONTINUOUS, "500 milliseconds")
    assert found.settings.spark == {"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "true"}
    assert found.sources["clicks"].options == {
        "topic": "clicks",
        "value.format": "json",
        "value.schema": "user STRING, at TIMESTAMP",
        # what came before the first start is not lost
        "startingOffsets": "earliest",
    }
    assert not found.sources["users"].is_stream
    flat = found.steps["flat"]
    assert flat.sql is not None
    # the first line of the text, where Spark begins to count
    assert str(flat.sql.place) == "p.yml:21"
    assert flat.watermark is not None
    assert (flat.watermark.column, flat.watermark.delay) == ("at", "10 minutes")
    assert flat.deduplicate is not None
    assert flat.deduplicate.by == ("user", "at")
    assert found.expectations["has_user"].action is Action.DEAD_LETTER
    assert found.sinks["out"].origin == "named"
    assert found.sinks["archive"].partition_by == ("day",)
    assert found.python_files() == ["names.py"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("mode: continuous", "mood: continuous", "p.yml:2: a pipeline knows no `mood`; did you mean `mode`?"),
        ("mode: continuous", "mode: continous", "p.yml:2: `mode` is 'continous'; did you mean continuous?"),
        ("  trigger:", "  triger:", "p.yml:5: `settings` knows no `triger`; did you mean `trigger`?"),
        ("500 ms", "5 parsecs", "p.yml:5: `trigger` is '5 parsecs'; it is a number with a unit, as 10 seconds"),
        ("    topic: clicks", "    topik: clicks", "p.yml:10: one of topic, topics, topicPattern, queue, table, files"),
        ("schema: user STRING, at", "shema: user STRING, at", "p.yml:13: source `clicks` knows no `shema`"),
        ("format: json", "format: jsn", "p.yml:10: Option `value.format` is 'jsn'"),
        ("    watermark: at 10 minutes", "    watermark: at", "p.yml:23: `watermark` is a column and a time span"),
        ("names.py:with_names", "names.with_names", "p.yml:26: `python` is 'names.with_names'; it is FILE.py:FUNCTION"),
        ("inputs: [flat, users]", "inputs: [flt]", "p.yml:27: `inputs` names 'flt', which is neither"),
        ("    on: flat", "    on: falt", "p.yml:30: `on` names 'falt', which is neither a source nor a step; did you"),
        ("    topic: dead.clicks\n", "", "p.yml:29: the action dead-letter needs `topic`"),
        ("    parquet: out", "    parquett: out", "one of topic, parquet, delta, table, console is needed"),
        ("  flat:\n", "  clicks:\n", "p.yml:19: `clicks` is there already, at p.yml:10"),
        ("  flat:\n", "  f lat:\n", "p.yml:19: the name 'f lat' cannot be"),
        ("    key: user", "    key: user\n    key: user", "`key` is there twice"),
        ("name: clicks", "name: a/b", "p.yml:1: the name 'a/b' cannot be"),
        ("name: clicks\n", "", "a pipeline needs `name`"),
        ("  trigger: 500 ms", "  from: 2030-01-01", "p.yml:5: `from` has a meaning in mode batch alone"),
        ("  out:", "  has_user:", "a sink is called `has_user` too"),
        ("    topic: clicks\n", "    queue: clicks\n", "a pipeline that reads a queue has one sink"),
        (
            "    topic: clicks\n",
            "    queue: c\n    options: {vhosst: x}\n",
            "p.yml:12: Option `vhosst` is not known; did you",
        ),
        ("    topic: clicks\n", "    queue: clicks\n    start: latest\n", "p.yml:12: source `clicks` knows no `start`"),
        (
            "    topic: clicks\n",
            "    table: c\n    options: {startingOffsets: latest}\n",
            "p.yml:12: a table is read whole",
        ),
        ("    format: csv", "    format: delta", "p.yml:17: a table of format delta has no options"),
        (
            "    key: user",
            "    options: {compresion: lz4}",
            "Option `compresion` is not known; did you mean `compression`?",
        ),
        ("    key: user", "    options: {address: a:1}", "p.yml:37: `address` is said in `settings`"),
        ("    parquet: out\n    partitionBy: day", "    console: yes please", "`console` is true, or a number of rows"),
        (
            "    parquet: out\n    partitionBy: day",
            "    console: 5\n    options: {a: 1}",
            "sink `archive` knows no `options`",
        ),
        ("    parquet: out", "    delta: out\n    output: complete", "a delta sink takes `output: append` alone"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(before: str, after: str, said: str) -> None:
    found = problems(changed(before, after))
    assert any(said in one for one in found), found


def test_all_problems_are_told_at_once() -> None:
    text = changed("  trigger:", "  triger:").replace("    on: flat", "    on: falt").replace("key: user", "kee: user")
    assert [one.split(" ")[0] for one in problems(text)] == ["p.yml:5:", "p.yml:30:", "p.yml:37:"]


def test_what_is_not_yaml() -> None:
    assert problems("name: [a") == ["p.yml:1: this is not YAML: expected ',' or ']', but got '<stream end>'"]
    assert problems("") == ["p.yml:1: the file is empty"]
    assert "p.yml:1: this value cannot be read" in problems("a: !!python/object:os.system x")[0]
    assert problems("name: a\nx: &a {y: 1}\nz: {<<: *a}")[0] == "p.yml:3: `<<` is not taken: write the keys out"


def test_aliases_do_not_grow_beyond_the_bound() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for number in range(8):
        text += f"a{number}: &b{number} [{', '.join(['*a' if number == 0 else f'*b{number - 1}'] * 10)}]\n"
    (said,) = problems(text)
    assert "too large or too deep" in said


@given(st.text(max_size=200))
def test_any_text_is_taken_or_refused(text: str) -> None:
    # no text without keys is a pipeline
    assert all(one.startswith("p.yml:") for one in problems(text))


def test_batch_needs_no_stream_and_takes_a_range() -> None:
    text = """\
name: again
mode: batch
settings: {from: 2030-01-01T00:00:00Z, to: 2030-02-01T00:00:00Z}
sources: {orders: {topic: orders}}
sinks: {out: {topic: orders-again, mode: append}}
"""
    assert problems(text)[0].startswith("p.yml:5: sink `out` knows no `mode`; known: from, topic,")
    found = parse_text(text.replace(", mode: append", ""), "p.yml")
    assert (found.settings.begin, found.settings.end) == ("2030-01-01T00:00:00Z", "2030-02-01T00:00:00Z")
    assert found.sources["orders"].options == {"topic": "orders"}
    # chosen on the command line, the mode of the file does not matter
    said = "p.yml:3: `from` has a meaning in mode batch alone"
    with pytest.raises(DefinitionRefused, match=said):
        parse_text(text, "p.yml", Mode.AVAILABLE_NOW)


def test_a_pipeline_in_python(tmp_path: Path) -> None:
    file = tmp_path / "totals.py"
    file.write_text(
        "import mainstem.spark\n\n"
        "@mainstem.spark.pipeline(name='totals', sources={'orders': {'topic': 'orders'}}, sinks={'out': {'topic': 't'}})\n"
        "def totals(orders):\n    return orders\n"
    )
    found = read_pipeline(file)
    assert (found.name, found.sinks["out"].origin) == ("totals", "result")
    assert found.functions[":totals"]("x") == "x"
    file.write_text(file.read_text().replace("'topic': 't'", "'topik': 't'"))
    with pytest.raises(DefinitionRefused) as caught:
        read_pipeline(file)
    assert str(caught.value).startswith(f"{file}:3: one of topic, parquet")
    file.write_text("1 / 0\n")
    with pytest.raises(DefinitionRefused, match=r"totals.py:1: ZeroDivisionError"):
        read_pipeline(file)
    file.write_text("def f(:\n")
    with pytest.raises(DefinitionRefused, match=r"totals.py:1: "):
        read_pipeline(file)
