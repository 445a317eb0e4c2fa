"""A broker with the scene on it, and one Chromium, for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import CHROMIUM, MISSING, chromium
from tests.console.scene import Load, Scene
from tests.support.serving.lasting_broker import closing


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("console")
    with closing(Scene(folder / "data")) as broker:
        broker.fill()
        with Load(broker):
            yield broker
