"""A run in the foreground whose Spark is ended by the signal that was to end the run, as service managers do."""

import contextlib
import logging
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from mainstem.pipelines.definition.parsing import parse_text
from mainstem.pipelines.running import foreground

PIPELINE = """
name: lost
sources:
  a: {topic: a}
sinks:
  a: {topic: b}
"""


class LostSession:
    """What is left of a session whose process is gone."""

    sparkContext = SimpleNamespace(setLogLevel=lambda level: None)  # noqa: N815 - Spark's name

    def stop(self) -> None:
        raise ConnectionRefusedError


def run_and_lose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_asked: bool) -> int:
    def lose(run: object) -> None:
        if is_asked:
            os.kill(os.getpid(), signal.SIGTERM)
        raise Py4JNetworkError("Answer from Java side is empty")

    pipeline = parse_text(PIPELINE, "lost.yml")
    context = SimpleNamespace(session=LostSession(), pipeline=pipeline, address="")
    nothing: Any = lambda *_, **__: contextlib.nullcontext()  # noqa: E731
    monkeypatch.setattr(foreground, "open_context", lambda *_, **__: context)
    monkeypatch.setattr(foreground, "check_topics", nothing)
    monkeypatch.setattr(foreground, "ForegroundReporter", nothing)
    monkeypatch.setattr(foreground.PipelineRun, "execute", lose)
    return foreground.run_here(pipeline, home=tmp_path, address=None, master=None, data_dir=str(tmp_path))


def test_it_says_so_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstem")
    assert run_and_lose(tmp_path, monkeypatch, is_asked=True) == 128 + signal.SIGTERM
    assert "the next run does it again" in caplog.text


def test_without_a_signal_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError):
        run_and_lose(tmp_path, monkeypatch, is_asked=False)
