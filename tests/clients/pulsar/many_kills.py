"""200 kills: `make pulsar-kills`."""

import os
from pathlib import Path

from tests.clients.pulsar.killing import run


def test_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    print(run(tmp_path / "data", kills=int(os.environ.get("KILLS", "200"))), "messages")
