"""Sizes add up to what was written."""

from __future__ import annotations

import pytest

from mainstem.storage.local.directories import Directories
from mainstem.storage.local.inspection.statistics import Statistics, measure
from mainstem.storage.local.inspection.statistics_lines import statistics_lines
from mainstem.storage.runtime.disk import LocalDisk
from tests.support.storage.inspected_directory import COMPACTED, DELETED, INDEXED, LARGE, InspectedDirectory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> InspectedDirectory:
    return InspectedDirectory(tmp_path_factory.mktemp("inspected") / "data").build()


@pytest.fixture(scope="module")
def statistics(directory: InspectedDirectory) -> Statistics:
    return measure(LocalDisk(), Directories(directory.settings))


def test_files_are_counted(directory: InspectedDirectory, statistics: Statistics) -> None:
    stored = [path for path in directory.root.rglob("*") if path.is_file()]
    assert sum(files.count for files in statistics.files) == len(stored)
    assert sum(files.bytes for files in statistics.files) == sum(path.stat().st_size for path in stored)
    kinds = {files.type: files for files in statistics.files}
    assert set(kinds) == {"wal", "spare", "run", "state", "identity", "lock"}
    assert kinds["wal"].groups is not None
    assert kinds["wal"].groups > 0


def test_logs_are_measured(directory: InspectedDirectory, statistics: Statistics) -> None:
    assert [log.bytes for log in statistics.logs] == sorted((log.bytes for log in statistics.logs), reverse=True)
    logs = {log.log: log for log in statistics.logs}
    for log, records in directory.expected.items():
        assert logs[log].start == directory.starts[log]
        assert logs[log].end == max(records) + 1
        assert logs[log].batches > 0
    assert logs[LARGE].batches == 3
    assert (logs[LARGE].oldest_ms, logs[LARGE].newest_ms) == (1_700_000_000_500, 1_700_000_000_502)
    assert logs[INDEXED].retention == {"retention_ms": 10**15}
    assert logs[COMPACTED].retention == {"compact": True}
    assert DELETED not in logs
    assert statistics.scopes["test"].keys == 7
    assert statistics.troubles == []


def test_statistics_for_people(statistics: Statistics) -> None:
    text = list(statistics_lines(statistics, statistics.logs[:2]))
    assert any(line.startswith("total ") for line in text)
    assert text[-1] == f"and {len(statistics.logs) - 2} smaller logs"
