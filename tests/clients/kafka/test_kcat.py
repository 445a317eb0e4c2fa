"""kcat, as people use it."""

import json
import shutil
import subprocess

import pytest

from tests.support.serving.kafka import PATIENCE_S, Broker

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]


def kcat(broker: Broker, *options: str, said: str = "") -> str:
    ended = subprocess.run(
        ["kcat", "-b", broker.address, *options],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_lines_in_lines_out(broker: Broker) -> None:
    lines = [f"key{i}:value{i}" for i in range(100)]
    kcat(broker, "-P", "-t", "kcat", "-K:", "-H", "a=b", "-z", "lz4", said="\n".join(lines) + "\n")
    out = kcat(broker, "-C", "-t", "kcat", "-o", "beginning", "-e", "-q", "-f", "%k:%s|%h\n")
    assert out.splitlines() == [f"{line}|a=b" for line in lines]
    described = json.loads(kcat(broker, "-L", "-J", "-t", "kcat"))
    assert described["brokers"] == [{"id": 1, "name": broker.address}]
    assert kcat(broker, "-Q", "-t", "kcat:0:-1").split() == ["kcat", "[0]", "offset", "100"]
