"""Three kills; `python -m tests.clients.mqtt.crash --cycles 200` for more. And proof that what must not happen is noticed."""

from pathlib import Path

import pytest

from tests.clients.mqtt.crash.history import check_heard, check_once, check_wills
from tests.clients.mqtt.crash.victim import mqtt_at_work
from tests.support.crashing.driver import CrashTest
from tests.support.crashing.promises import Broken

CYCLES = 3


@pytest.mark.conformance
@pytest.mark.slow
def test_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    test = CrashTest(mqtt_at_work, tmp_path, seed=1)
    test.run(CYCLES)
    assert test.totals["one"] > CYCLES * 20
    assert test.totals["two"] > CYCLES * 20
    assert test.totals["wills"] == CYCLES


def test_what_must_not_be_found_is_noticed() -> None:
    check_once("sound", [b"0-0", b"0-1"], 2)
    check_heard("sound", [b"0-0", b"0-0", b"0-1", b"0-0"], 2)
    for values in ([b"0-0"], [b"0-0", b"0-0", b"0-1"], [b"0-1", b"0-0"]):
        with pytest.raises(Broken):
            check_once("broken", values, 2)
    for values in ([b"0-0"], [b"0-1", b"0-0"]):
        with pytest.raises(Broken):
            check_heard("broken", values, 2)
    with pytest.raises(Broken):
        check_wills({"wills/0": [b"gone"]}, 2)
