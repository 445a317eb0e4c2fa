"""Everything that was written is printed, once, where it is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstem.storage.local.directories import Directories
from mainstem.storage.local.inspection.dump.dump import dump_directory, dump_files
from mainstem.storage.local.inspection.dump.printable import Cut, Hex, show_bytes, write_bytes, write_time
from mainstem.storage.local.inspection.dump.row_lines import RowLines
from mainstem.storage.local.inspection.dump.rows import AnyRow, BatchRow, FileRow, RecordRow, StateRow, TroubleRow
from mainstem.storage.local.inspection.dump.selection import Selection
from mainstem.storage.local.inspection.survey import Survey
from mainstem.storage.runtime.disk import LocalDisk
from tests.support.storage.inspected_directory import (
    COMPACTED,
    DELETED,
    INDEXED,
    LARGE,
    PLAIN,
    PRODUCER,
    REFERRING,
    TRANSACTIONAL,
    InspectedDirectory,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> InspectedDirectory:
    return InspectedDirectory(tmp_path_factory.mktemp("inspected") / "data").build()


def rows_of(directory: InspectedDirectory, **selection: Any) -> Iterator[AnyRow]:
    return dump_directory(LocalDisk(), Directories(directory.settings), Selection(**selection))


def as_bytes(shown: Any) -> bytes | None:
    """From JSON back to what was written."""
    if isinstance(shown, dict):
        return bytes.fromhex(shown["hex"])
    return None if shown is None else shown.encode()


def test_every_record_is_printed_once_as_it_was_written(directory: InspectedDirectory) -> None:
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(directory, records=True):
        value = json.loads(msgspec.json.encode(row))
        if value["kind"] == "record":
            found[value["log"]].append(value)
    for log in (PLAIN, REFERRING, INDEXED, LARGE, TRANSACTIONAL):
        offsets = [record["offset"] for record in found[log]]
        assert offsets == sorted(set(offsets))
        remaining = directory.remaining(log)
        assert set(remaining) <= set(offsets) <= set(directory.expected[log])
        for record in found[log]:
            written = directory.expected[log][record["offset"]]
            assert record["timestamp_ms"] == written.timestamp_ms
            assert (as_bytes(record["key"]), as_bytes(record["value"])) == (written.key, written.value)
            assert [(name, as_bytes(data)) for name, data in record.get("headers", ())] == list(written.headers)
    compacted = [record["offset"] for record in found[COMPACTED]]
    assert compacted == sorted(set(compacted))
    assert max(compacted) == max(directory.expected[COMPACTED])
    assert len(compacted) < len(directory.expected[COMPACTED])


def test_one_log_from_an_offset_on(directory: InspectedDirectory) -> None:
    offsets = sorted(directory.expected[REFERRING])
    chosen = offsets[len(offsets) // 2]
    rows = list(rows_of(directory, records=True, log=REFERRING, from_offset=chosen))
    assert [row.offset for row in rows if isinstance(row, RecordRow)] == offsets[offsets.index(chosen) :]
    assert {row.log for row in rows if isinstance(row, BatchRow | RecordRow)} == {REFERRING}
    assert not any(isinstance(row, StateRow | TroubleRow) for row in rows)
    assert not any(isinstance(a, FileRow) and isinstance(b, FileRow) for a, b in zip(rows, rows[1:], strict=False))


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_a_limit_ends_the_dump(directory: InspectedDirectory, limit: int) -> None:
    rows = list(rows_of(directory, records=True, log=PLAIN, from_offset=40, limit=limit))
    assert [row.offset for row in rows if isinstance(row, RecordRow)] == list(range(40, 40 + limit))
    batches = [row for row in rows_of(directory, log=PLAIN, from_offset=40, limit=limit) if isinstance(row, BatchRow)]
    assert len(batches) == limit


def test_state_of_the_engine_is_explained(directory: InspectedDirectory) -> None:
    rows = [row for row in rows_of(directory) if isinstance(row, StateRow)]
    facts = {row.scope: row.facts for row in rows if row.facts}
    assert {"engine/logs", "engine/files", "engine/producers"} <= set(facts)
    assert facts["engine/producers"] is not None
    assert facts["engine/producers"]["producer"] == PRODUCER
    assert not [row for row in rows if row.scope.startswith("engine/") and row.facts is None]
    lines = RowLines()
    text = "\n".join(map(lines.line, rows))
    assert 'test "key-10" = "state of key-10"' in text
    assert f"engine/logs log={INDEXED} start=0 floor=0" in text
    assert "merged_to_group=" in text


def test_single_files_are_printed_whole(directory: InspectedDirectory, tmp_path: Path) -> None:
    survey = Survey(LocalDisk(), Directories(directory.settings)).run()
    paths = [survey.state_runs[0], *(run.path for run in survey.runs), survey.wal[0].path, survey.spares[0].path]
    rows = list(dump_files(LocalDisk(), paths, Selection(records=True, width=20)))
    assert [row.file for row in rows if isinstance(row, FileRow)] == paths
    assert not [row for row in rows if isinstance(row, TroubleRow)]
    kinds = {json.loads(msgspec.json.encode(row))["kind"] for row in rows}
    assert kinds == {"file", "group", "frame", "log", "block", "batch", "record", "state", "key-table", "key", "end"}
    assert any(isinstance(row, BatchRow) and row.log == DELETED for row in rows)
    assert not any(isinstance(row, BatchRow) and row.log == DELETED for row in rows_of(directory))
    markers = {row.marker for row in rows if isinstance(row, BatchRow) and row.log == TRANSACTIONAL}
    assert {"commit", "abort"} <= markers
    renamed = tmp_path / "renamed"
    renamed.write_bytes(Path(survey.wal[0].path).read_bytes())
    assert len(list(dump_files(LocalDisk(), [str(renamed)], Selection()))) > 10


def test_what_cannot_be_read_is_said_and_the_rest_goes_on(directory: InspectedDirectory, tmp_path: Path) -> None:
    survey = Survey(LocalDisk(), Directories(directory.settings)).run()
    damaged = tmp_path / "0000000000000001.run"
    content = bytearray(Path(survey.runs[0].path).read_bytes())
    content[700] ^= 1
    damaged.write_bytes(content)
    stranger = tmp_path / "stranger"
    stranger.write_bytes(b"hello")
    paths = [str(stranger), str(tmp_path / "missing"), str(damaged), survey.state_runs[0]]
    rows = list(dump_files(LocalDisk(), paths, Selection()))
    assert [row.file for row in rows if isinstance(row, TroubleRow)] == paths[:3]
    assert isinstance(rows[-1], StateRow)


def test_bytes_for_people() -> None:
    assert write_bytes(show_bytes(None, 10)) == "null"
    assert write_bytes(show_bytes(b"", 10)) == '""'
    assert write_bytes(show_bytes("Grüße\n".encode(), 10)) == '"Grüße\\n"'
    assert show_bytes(b"\x00\x01", 10) == Hex("0001")
    assert show_bytes(b"\xff" * 10, 9) == Cut(Hex("ff" * 4), 10)
    assert show_bytes(b"a" * 10, 9) == Cut("a" * 9, 10)
    assert show_bytes(b"a" * 10, 10) == "a" * 10
    assert show_bytes("ü".encode() * 50, 3) == Cut("üüü", 100)
    for width in range(1, 9):  # through a character of three bytes
        shown = show_bytes(b"x" + "€".encode() * 50, width)
        assert shown == Cut("x" + "€" * (width - 1), 151)


def test_times_for_people() -> None:
    assert write_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert write_time(-1) == "-"
    assert write_time(-5) == "-5 ms"
    assert write_time(2**63 - 1) == f"{2**63 - 1} ms"
