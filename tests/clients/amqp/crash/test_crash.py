"""Five kills; `python -m tests.clients.amqp.crash --cycles 200` for more. And proof that what must not happen is noticed."""

from pathlib import Path

import pytest

from tests.clients.amqp.crash.history import AmqpHistory, check_delivered, check_stored
from tests.clients.amqp.crash.victim import amqp_at_work
from tests.support.crashing.driver import CrashTest, forgetting
from tests.support.crashing.promises import Broken

CYCLES = 5


# pika leaves sockets of its own to the garbage collector where a connection fails while it is being made.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.conformance
@pytest.mark.slow
def test_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    test = CrashTest(amqp_at_work, tmp_path, seed=1)
    test.run(CYCLES)
    assert test.totals["confirmed"] > CYCLES * 20
    assert test.totals["settled"] > CYCLES * 10
    assert test.totals["delayed"] > CYCLES * 10
    assert test.totals["dead"] > CYCLES * 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.conformance
@pytest.mark.slow
def test_a_disk_that_forgets_what_it_had_synced_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(Broken):
        CrashTest(amqp_at_work, tmp_path, seed=1, between=forgetting(tmp_path)).run(3)


def test_what_must_not_be_found_is_noticed() -> None:
    check_stored("sound", {b"0-1"}, [b"0-0", b"1-0", b"0-1"])
    with pytest.raises(Broken, match="lost"):
        check_stored("lost", {b"0-1"}, [b"0-0"])
    with pytest.raises(Broken, match="twice"):
        check_stored("doubled", {b"0-1"}, [b"0-1", b"0-1"], in_order=False)
    with pytest.raises(Broken, match="follows"):
        check_stored("out of order", {b"0-1"}, [b"0-1", b"0-0"])
    history = AmqpHistory(confirmed={b"0-0", b"0-1"}, delivered=[(b"0-1", False), (b"0-0", True)])
    check_delivered(history)
    with pytest.raises(Broken, match="follows"):
        check_delivered(AmqpHistory(confirmed=set(), delivered=[(b"0-1", False), (b"0-0", False)]))
    with pytest.raises(Broken, match="never delivered"):
        check_delivered(AmqpHistory(confirmed={b"0-2"}, delivered=[]))
