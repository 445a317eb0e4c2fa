"""A broker whose disk fails ends at once, although threads hang in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving.program import PATIENCE_S

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys, threading
from mainstem.model.errors import EngineFailed
from mainstem.server.lifecycle import run
from mainstem.server.log_lines import configure_logging
from mainstem.server.settings_resolution import resolve
from mainstem.server.settings_sources import Flags
from tests.unit.server.fake_storage import FakeStorage

storage = FakeStorage()

def announce(line):
    print(line)
    threading.Thread(target=threading.Event().wait).start()  # a disk that never answers
    asyncio.get_running_loop().call_soon(storage.engine.fail, EngineFailed("fdatasync: input/output error"))

configure_logging("info")
sys.exit(run(resolve(Flags(listen=["http=127.0.0.1:0", "kafka=off", "amqp=off"]), {}).settings, announce, storage))
"""


def test_it_ends_with_1_and_says_why() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 1
    assert ended.stdout.startswith("ready ")
    assert 'level=critical source=mainstem.server.lifecycle message="storage failed' in ended.stderr
    assert "fdatasync: input/output error" in ended.stderr
    assert "Traceback" not in ended.stderr
