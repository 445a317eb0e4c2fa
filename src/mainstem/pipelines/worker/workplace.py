"""The directory of a worker: its name, its lock, and a place for each pipeline.

DATA_DIR/pipelines/.worker-id       by which the broker knows this worker again
DATA_DIR/pipelines/.worker.lock     held while it runs
DATA_DIR/pipelines/NAME/            checkpoints, the log, the lock of the driver
DATA_DIR/pipelines/NAME/code/       the definition and its files
DATA_DIR/output/NAME/               what relative paths of a deployed definition are relative to
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from mainstem.pipelines.errors import PipelineError

LOCK_PATIENCE_S = 20.0
LOCK_STEP_S = 0.2
DEPLOYMENT = "deployment.json"
CODE = "code"


class WorkplaceBusy(PipelineError):
    """Another worker has the directory."""


class Workplace:
    """Of one worker."""

    def __init__(self, data_dir: Path, lock_patience_s: float = LOCK_PATIENCE_S) -> None:
        self._lock_patience_s = lock_patience_s
        self.data_dir = data_dir.absolute()
        self.root = self.data_dir / "pipelines"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One worker at a time. One that is ending is waited for. Raises WorkplaceBusy."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".worker.lock").open("a") as file:
            deadline = time.monotonic() + self._lock_patience_s
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise WorkplaceBusy(f"Another worker has the directory {self.root}: stop it first.") from None
                    time.sleep(LOCK_STEP_S)
            yield

    def worker_id(self) -> str:
        """The same over restarts."""
        path = self.root / ".worker-id"
        try:
            known = path.read_text(encoding="utf-8").strip()
        except OSError:
            known = ""
        if not known:
            known = f"{os.uname().nodename[:100]}-{uuid.uuid4().hex[:12]}"
            _write(path, known)
        return known

    def place(self, name: str) -> Path:
        """Of one pipeline."""
        return self.root / name

    def output(self, name: str) -> Path:
        """Of the data that a pipeline writes below no other path."""
        return self.data_dir / "output" / name

    def make_room(self, name: str, identity: str) -> None:
        """What a removed pipeline of this name has left goes."""
        if self._identity(name) not in (None, identity):
            shutil.rmtree(self.place(name), ignore_errors=True)

    def prepare(self, name: str, identity: str, file: str, text: str, files: Mapping[str, str]) -> Path:
        """Puts the definition in place; answers its file."""
        place = self.place(name)
        code = place / CODE
        shutil.rmtree(code, ignore_errors=True)
        code.mkdir(parents=True)
        for path, content in files.items():
            target = code / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        definition = code / Path(file).name
        definition.write_text(text, encoding="utf-8")
        _write(place / DEPLOYMENT, json.dumps({"identity": identity}))
        self.output(name).mkdir(parents=True, exist_ok=True)
        return definition

    def clear(self, name: str, identity: str) -> None:
        """The pipeline was removed: what it kept between runs is not needed. Data that it wrote stays."""
        if self._identity(name) == identity:
            shutil.rmtree(self.place(name), ignore_errors=True)

    def _identity(self, name: str) -> str | None:
        try:
            return str(json.loads((self.place(name) / DEPLOYMENT).read_text(encoding="utf-8"))["identity"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
