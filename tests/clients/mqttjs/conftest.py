"""MQTT.js from npm, installed once outside the sources; without Node.js, npm or a way to its packages the tests skip."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving.mqtt import MqttBroker, serving

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
INSTALL_SECONDS_MAX = 60
INSTALL = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
INSTALL += ["--fetch-retries=0", "--loglevel=error"]


@pytest.fixture(scope="session")
def modules() -> Path:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"MQTT.js needs {program}, which is not installed")
    home = ROOT / "build" / "mqttjs"
    home.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_bytes()
    if not (home / "complete").exists() or (home / "package.json").read_bytes() != wanted:
        (home / "complete").unlink(missing_ok=True)
        (home / "package.json").write_bytes(wanted)
        install(home)
        (home / "complete").touch()
    return home / "node_modules"


def install(home: Path) -> None:
    try:
        done = subprocess.run(
            INSTALL, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring MQTT.js within {INSTALL_SECONDS_MAX} s")
    if done.returncode:
        pytest.skip(f"npm could not bring MQTT.js: {done.stderr.strip()[:300]}")


@pytest.fixture(scope="session")
def broker(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttBroker]:
    with serving(tmp_path_factory.mktemp("mqttjs") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def environment(modules: Path) -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(modules)}
