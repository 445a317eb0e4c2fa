"""KafkaJS from npm, installed once outside the sources; without Node.js, npm or a way to its packages the tests skip."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving.kafka import QUICK_GROUPS, Broker, serving

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
INSTALL_SECONDS_MAX = 60


@pytest.fixture(scope="session")
def modules() -> Path:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"KafkaJS needs {program}, which is not installed")
    home = ROOT / "build" / "kafkajs"
    home.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_bytes()
    if not (home / "complete").exists() or (home / "package.json").read_bytes() != wanted:
        (home / "complete").unlink(missing_ok=True)
        (home / "package.json").write_bytes(wanted)
        install(home)
        (home / "complete").touch()
    return home / "node_modules"


def install(home: Path) -> None:
    command = [
        "npm",
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--fetch-retries=0",
        "--loglevel=error",
    ]
    try:
        done = subprocess.run(
            command, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring KafkaJS within {INSTALL_SECONDS_MAX} s")
    if done.returncode:
        pytest.skip(f"npm could not bring KafkaJS: {done.stderr.strip()[:300]}")


@pytest.fixture(scope="session")
def broker(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("kafkajs") / "data", *QUICK_GROUPS) as running:
        yield running


@pytest.fixture(scope="session")
def environment(modules: Path) -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
