"""A world for each test."""

from collections.abc import Iterator

import pytest

from tests.support.worlds.queue_world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A broker on a simulated disk."""
    world = World()
    yield world
    world.close()
