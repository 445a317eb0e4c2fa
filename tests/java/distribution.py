"""Apache Kafka's own Java client and command-line tools, fetched from Maven Central where that can be reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parent.parent.parent
KAFKA_VERSION = os.environ.get("KAFKA_JAVA_VERSION", "4.3.0")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_SECONDS_MAX = 300
TOOL_SECONDS_MAX = 60
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Each tool lives for a second: no time to compile much, nor to collect side by side."""

PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>mainstem</groupId>
  <artifactId>java-tools</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
DEPENDENCY = """\
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
"""
KAFKA = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)
MIRROR = (
    ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


class NotReachable(Exception):
    """There is no Java, no Maven, or no way to Maven Central."""


def fetch_jars(name: str, artifacts: Sequence[tuple[str, str, str]], kept: tuple[str, ...] | None = None) -> list[Path]:
    """The jars of the artifacts and of all that they need, kept under `build/`; of them, those whose names begin so."""
    home = ROOT / "build" / "java" / name
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NotReachable(f"{program} is not installed")
    if not (home / "complete").exists():
        _fetch(home, artifacts)
    return [jar for jar in sorted((home / "jars").glob("*.jar")) if kept is None or jar.name.startswith(kept)]


def _fetch(home: Path, artifacts: Sequence[tuple[str, str, str]]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(DEPENDENCY.format(*artifact) for artifact in artifacts)
    (home / "pom.xml").write_text(PROJECT.format(dependencies=dependencies))
    command = ["mvn", "--batch-mode", "--quiet", PLUGIN, f"-DoutputDirectory={home / 'jars'}"]
    try:
        done = subprocess.run(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise NotReachable(f"Maven did not finish within {FETCH_SECONDS_MAX} s") from None
    if done.returncode:
        raise NotReachable(f"Maven could not fetch {artifacts[0][1]} {artifacts[0][2]}: {done.stdout.strip()[:500]}")
    (home / "complete").touch()


class Distribution:
    """The jars of one version of Kafka, under `build/`."""

    def __init__(self, name: str = KAFKA_VERSION, artifacts: Sequence[tuple[str, str, str]] = KAFKA) -> None:
        fetch_jars(name, artifacts)
        self._home = ROOT / "build" / "java" / name

    def start(self, program: str, *arguments: str, out: IO[str]) -> subprocess.Popen[bytes]:
        """A program that runs until it is ended; what it says goes to a file."""
        command = ["java", *JVM_OPTIONS, "-cp", str(self._home / "jars" / "*"), program, *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def run_source(self, program: Path, *arguments: str) -> str:
        """The same for a program of one file, compiled as it is started."""
        return self.run(str(program), *arguments)

    def run(self, tool: str, *arguments: str, lines: str = "") -> str:
        """What a tool says on standard output; it must end by itself, and well."""
        command = ["java", *JVM_OPTIONS, "-cp", str(self._home / "jars" / "*"), tool, *arguments]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX)
        # Some tools tell of an error and end as if there was none.
        assert done.returncode == 0, f"{tool} {arguments}: {done.stdout}\n{done.stderr}"
        assert "Exception" not in done.stdout + done.stderr, f"{tool} {arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout
