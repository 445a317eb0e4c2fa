"""A broker on a simulated disk, whose engine answers at once where it can, or always late."""

from collections.abc import Iterator

import pytest

from tests.support.worlds.queue_world import World


@pytest.fixture(params=[False, True], ids=["at-once", "late"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(is_late=request.param)
    yield made
    made.close()
