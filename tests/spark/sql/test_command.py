"""`mainstem sql` as it is typed."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.spark.sql.everything import PATIENCE_S, Everything, command

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_one_shell_on_one_session(orders: Everything, tmp_path: Path) -> None:
    """Everything in one start of Spark: a table, an error, a statement that is cancelled, and what follows."""
    shell = subprocess.Popen(
        command(orders, "--format", "json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    try:
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert shell.stderr is not None

        def type_in(text: str) -> None:
            shell.stdin.write(text.encode() + b"\n")  # type: ignore[union-attr]
            shell.stdin.flush()  # type: ignore[union-attr]

        def answer() -> object:
            readable, _, _ = select.select([shell.stdout], [], [], PATIENCE_S)
            assert readable
            return json.loads(shell.stdout.readline())  # type: ignore[union-attr]

        type_in("SELECT value.country AS c, count(*) AS n\nFROM orders GROUP BY 1 ORDER BY 1 LIMIT 1;")
        assert answer() == {"c": "DE", "n": 5}
        type_in("SELECT * FROM nobody;\nSELECT 'slow' AS is;")
        assert answer() == {"is": "slow"}
        type_in("SELECT count(*) AS n FROM range(1000000000000) WHERE sqrt(id) * rand() < -1;")
        time.sleep(1.5)  # so that it runs; earlier, it is cancelled before it does
        os.kill(shell.pid, signal.SIGINT)
        type_in("SELECT lag_messages AS l FROM mainstem.groups;\nSELECT 'after' AS is;")
        assert answer() == {"is": "after"}
        out, err = shell.communicate(timeout=PATIENCE_S)
    finally:
        if shell.poll() is None:
            shell.kill()
            shell.communicate()
    said = err.decode()
    assert (shell.returncode, out) == (0, b""), said
    complaints = [line for line in said.splitlines() if line.startswith("error: ")]
    assert complaints == [
        "error: There is no topic or table 'nobody': \\d, or SHOW TABLES, lists what there is.",
        "error: cancelled",
    ]
    assert "Traceback" not in said
    assert "\tat " not in said
    assert list(tmp_path.iterdir()) == [], "nothing is left where it was typed"


def test_what_is_wrong_is_said_before_spark_starts(orders: Everything) -> None:
    for arguments, sentence in (
        (["--schema", "orders", "SELECT 1"], "--schema orders: must be TOPIC=DDL"),
        (["--remote", "sc://x", "--master", "local", "SELECT 1"], "either --remote or --master"),
    ):
        done = subprocess.run(command(orders, *arguments), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert sentence in done.stderr
