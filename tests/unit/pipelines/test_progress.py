"""What a sink reports from Spark's checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainstem.pipelines.source import progress
from mainstem.pipelines.source.progress import report_batch


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    class Reporter:
        def report(self, _: object, position: Any) -> None:
            found.append((position.group, dict(position.offsets)))

    monkeypatch.setattr(progress, "ProgressReporter", Reporter)
    return found


def test_each_source_of_ours_in_a_batch(tmp_path: Path, reported: list[Any]) -> None:
    (tmp_path / "a b" / "offsets").mkdir(parents=True)
    ours = {"t": {"0": 5}, "@group": "g", "@address": "127.0.0.1:1"}
    lines = ["v1", '{"batchWatermarkMs":0}', json.dumps(ours), '{"other": {"0": 1}}', "-", "17"]
    (tmp_path / "a b" / "offsets" / "3").write_text("\n".join(lines))
    for checkpoint in (str(tmp_path / "a b"), (tmp_path / "a b").as_uri()):
        report_batch(checkpoint, 3)
        assert reported.pop() == ("g", {("t", 0): 5})
    for checkpoint, batch in ((None, 3), ("s3a://bucket/a", 3), (str(tmp_path / "a b"), 4), ("", 3)):
        report_batch(checkpoint, batch)
    assert reported == []
