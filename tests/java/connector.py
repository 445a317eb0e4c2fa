"""Spark's own Kafka connector, which is not on PyPI.

Where Maven Central has it for the installed Spark, that one is used; else the newest one there is, with a Spark of its version in
an environment of its own.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyspark

from tests.java.distribution import ROOT, NotReachable, fetch_jars

FALLBACKS = ("4.2.0", "4.1.0", "4.0.0")
PATIENCE_S = 300


class Connector:
    """The jars of one version, and a Python with that Spark."""

    def __init__(self) -> None:
        reasons = []
        for version in (pyspark.__version__, *FALLBACKS):
            try:
                self.jars = fetch_jars(
                    f"spark-kafka-{version}",
                    [("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)],
                    kept=("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2"),
                )
            except NotReachable as reason:
                reasons.append(str(reason))
                continue
            self.version = version
            self.python = sys.executable if version == pyspark.__version__ else _python_with(version)
            return
        raise NotReachable(reasons[0])

    def run(self, script: Path, *arguments: str) -> dict[str, object]:
        """One job, in a driver of its own, which is told the jars last and prints a line of JSON."""
        jars = ",".join(str(jar) for jar in self.jars)
        ran = subprocess.run(
            [self.python, str(script), *arguments, jars],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "PYSPARK_PYTHON": self.python},
        )
        assert ran.returncode == 0, ran.stderr[-3_000:]
        found: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
        return found


def _python_with(version: str) -> str:
    home = ROOT / "build" / "java" / f"pyspark-{version}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, clear=True, symlinks=True, with_pip=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={version}"], capture_output=True, text=True
        )
        if done.returncode:
            raise NotReachable(f"pyspark {version} cannot be installed: {done.stderr[-300:]}")
        (home / "complete").touch()
    return str(python)
