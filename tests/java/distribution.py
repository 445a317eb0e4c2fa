"""Apache Kafka's own Java client and command-line tools, fetched from Maven Central where that can be reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
KAFKA_VERSION = os.environ.get("KAFKA_JAVA_VERSION", "4.3.0")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_SECONDS_MAX = 300
TOOL_SECONDS_MAX = 60
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Each tool lives for a second: no time to compile much, nor to collect side by side."""

PROJECT = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>mainstem</groupId>
  <artifactId>java-tools</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class NotReachable(Exception):
    """There is no Java, no Maven, or no way to Maven Central."""


class Distribution:
    """The jars of one version of Kafka, under `build/`."""

    def __init__(self) -> None:
        self._home = ROOT / "build" / "java" / KAFKA_VERSION
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise NotReachable(f"{program} is not installed")
        if not (self._home / "complete").exists():
            self._fetch()

    def _fetch(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "pom.xml").write_text(PROJECT)
        command = ["mvn", "--batch-mode", "--quiet", PLUGIN, f"-DoutputDirectory={self._home / 'jars'}"]
        try:
            done = subprocess.run(
                command,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=FETCH_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise NotReachable(f"Maven did not finish within {FETCH_SECONDS_MAX} s") from None
        if done.returncode:
            raise NotReachable(f"Maven could not fetch Kafka {KAFKA_VERSION}: {done.stdout.strip()[:500]}")
        (self._home / "complete").touch()

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
