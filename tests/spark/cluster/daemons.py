"""A standalone cluster on loopback: a master and two workers of `spark-class`, as the wheel has it.

The workers live in another directory and in a virtual environment of their own, which has Spark and what Arrow needs, and
nothing of ours: what they run of us was shipped to them.
"""

import contextlib
import os
import re
import select
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark

PATIENCE_S = 240
"""Reached when something is broken, not when the machine has other things to do."""
JOB_PATIENCE_S = 600
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WHAT_WORKERS_HAVE = (
    "pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pandas", "dateutil", "six.py", "pytz", "tzdata",
)  # fmt: skip


def worker_environment(directory: Path) -> dict[str, str]:
    """A virtual environment without mainstem, and the variables that make a worker use it."""
    home = directory / "venv"
    venv.create(home, symlinks=True, with_pip=False)
    packages = next((home / "lib").glob("python*")) / "site-packages"
    ours = Path(sysconfig.get_paths()["purelib"])
    for name in WHAT_WORKERS_HAVE:
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAINSTEM_", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV"))
    }
    return {
        **clean,
        "PATH": f"{home / 'bin'}{os.pathsep}{clean['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
    }


class Daemon:
    """A master or a worker."""

    def __init__(self, directory: Path, environment: dict[str, str], *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [str(SPARK_CLASS), *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,  # else lines that came together wait in a buffer, which `select` does not see
            start_new_session=True,
        )

    def wait_line(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        seen = ""
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self.process.stdout], [], [], 1)
            if readable:
                line = self.process.stdout.readline().decode()
                if not line:
                    break
                seen += line
                if match := re.search(pattern, line):
                    return match
        raise AssertionError(f"no line like {pattern!r} came:\n{seen}")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """The master's address."""
    environment = worker_environment(directory)
    said = subprocess.run(
        ["python3", "-c", "import pyspark, pyarrow; import mainstem"],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'mainstem'" in said.stderr, said.stderr
    log_settings = directory / "log4j2.properties"
    log_settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.type = Console\nappender.out.name = out\nappender.out.target = SYSTEM_ERR\n"
        "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
    )
    environment["SPARK_DAEMON_JAVA_OPTS"] = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    started: list[Daemon] = []
    try:
        master = Daemon(
            directory / "master", environment,
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
        )  # fmt: skip
        started.append(master)
        address = master.wait_line(r"Starting Spark master at (spark://\S+)")[1]
        # two hosts, because Spark runs no second attempt on the host of the first
        for host in ("127.0.0.2", "127.0.0.3"):
            place = directory / host
            worker = Daemon(
                place, environment | {"SPARK_LOCAL_IP": host},
                "org.apache.spark.deploy.worker.Worker", "--host", host, "--webui-port", "0",
                "--cores", "2", "--memory", "1g", "--work-dir", str(place / "work"), address,
            )  # fmt: skip
            started.append(worker)
        for worker in started[1:]:
            worker.wait_line("Successfully registered with master")
        yield address
    finally:
        for daemon in reversed(started):
            daemon.end()


def run_job(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A driver of its own, because a process has one Spark."""
    root = Path(__file__).parents[3]
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "MAINSTEM_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster.job", *arguments],
        env={**clean, "PYTHONPATH": str(root), **(environment or {})},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=JOB_PATIENCE_S,
        check=False,
    )
