"""The directory of a worker, and the logs of its drivers."""

from pathlib import Path

import pytest

from mainstem.pipelines.worker.bounded_log import BoundedLog
from mainstem.pipelines.worker.workplace import Workplace, WorkplaceBusy


def test_a_worker_keeps_its_name_and_its_place(tmp_path: Path) -> None:
    first = Workplace(tmp_path)
    with first.held():
        name = first.worker_id()
        with pytest.raises(WorkplaceBusy), Workplace(tmp_path, lock_patience_s=0.0).held():
            pass
    with Workplace(tmp_path).held():
        assert Workplace(tmp_path).worker_id() == name


def test_definitions_are_put_in_place_and_cleared(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    definition = place.prepare("p", "1", "../p.yml", "name: p", {"a/f.py": "code"})
    assert definition == tmp_path / "pipelines" / "p" / "code" / "p.yml"
    assert definition.read_text() == "name: p"
    assert (definition.parent / "a" / "f.py").read_text() == "code"
    checkpoint = tmp_path / "pipelines" / "p" / "checkpoint"
    checkpoint.mkdir()
    # the same pipeline goes on, without the files of its last revision
    place.make_room("p", "1")
    place.prepare("p", "1", "p.yml", "name: p", {})
    assert checkpoint.exists()
    assert not (definition.parent / "a").exists()
    # another one of its name begins anew
    place.make_room("p", "2")
    assert not checkpoint.exists()
    place.prepare("p", "2", "p.yml", "name: p", {})
    place.clear("p", "1")
    assert definition.exists()
    place.clear("p", "2")
    assert not definition.exists()
    # what a run in the foreground has left is taken over
    checkpoint.mkdir(parents=True)
    place.make_room("p", "3")
    assert checkpoint.exists()


def test_logs_are_bounded_and_read_by_position(tmp_path: Path) -> None:
    limits = {"file_bytes_max": 100, "tail_characters_max": 30}
    log = BoundedLog(tmp_path / "p" / "driver.log", **limits)
    for number in range(30):
        log.append(b"line %02d\n" % number)
    assert log.end == 240
    assert log.after(232, 100) == (232, "line 29\n")
    # what is gone is left out, and what is asked for is bounded
    assert log.after(0, 6) == (210, "ne 26\n")
    assert log.after(999, 10) == (240, "")
    log.close()
    sizes = [path.stat().st_size for path in sorted((tmp_path / "p").iterdir())]
    assert len(sizes) == 2
    assert max(sizes) <= 100
    again = BoundedLog(tmp_path / "p" / "driver.log", **limits)
    assert again.after(0, 100)[1].endswith("line 29\n")
    again.close()
