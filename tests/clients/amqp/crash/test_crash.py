"""Ten kills; `python -m tests.clients.amqp.crash --cycles 200` for more. And proof that what must not happen is noticed."""

import shutil
from pathlib import Path

import pytest

from tests.clients.amqp.crash.cycle import CrashTest
from tests.clients.amqp.crash.history import Broken, History, check_delivered, check_stored
from tests.clients.amqp.serving import Broker

CYCLES = 10


@pytest.mark.conformance
@pytest.mark.slow
def test_ten_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    test = CrashTest(tmp_path, seed=1)
    test.run(CYCLES)
    assert test.confirmed > CYCLES * 20
    assert test.settled > CYCLES * 10
    assert test.delayed > CYCLES * 10
    assert test.dead > CYCLES * 10


@pytest.mark.conformance
@pytest.mark.slow
def test_a_disk_that_forgets_what_it_had_synced_is_noticed(tmp_path: Path) -> None:
    """The data directory as it was a kill before: everything in it is sound, and too old."""

    def forget(cycle: int, broker: Broker) -> None:
        data, earlier = tmp_path / "node-0", tmp_path / "earlier"
        if cycle == 0:
            shutil.copytree(data, earlier)
        elif cycle == 1:
            shutil.rmtree(data)
            shutil.copytree(earlier, data)

    with pytest.raises(Broken):
        CrashTest(tmp_path, seed=1, between=forget).run(3)


def test_what_must_not_be_found_is_noticed() -> None:
    check_stored("sound", {b"0-1"}, [b"0-0", b"1-0", b"0-1"])
    with pytest.raises(Broken, match="lost"):
        check_stored("lost", {b"0-1"}, [b"0-0"])
    with pytest.raises(Broken, match="twice"):
        check_stored("doubled", {b"0-1"}, [b"0-1", b"0-1"], in_order=False)
    with pytest.raises(Broken, match="after"):
        check_stored("out of order", {b"0-1"}, [b"0-1", b"0-0"])
    history = History(confirmed={b"0-0", b"0-1"}, delivered=[(b"0-1", False), (b"0-0", True)])
    check_delivered(history)
    with pytest.raises(Broken, match="after"):
        check_delivered(History(confirmed=set(), delivered=[(b"0-1", False), (b"0-0", False)]))
    with pytest.raises(Broken, match="never delivered"):
        check_delivered(History(confirmed={b"0-2"}, delivered=[]))
