"""The object store knows which database was used last, and refuses one that a fail-over left behind."""

from random import Random

import pytest

from mainstem.model.errors import DiskError
from mainstem.storage.shared.database_identity import check_database
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.shared_store import SimulatedObjects, SimulatedStore


class MissingAsS3(SimulatedObjects):
    """What is not there is told as the real store tells it."""

    def get(self, key: str) -> bytes:
        try:
            return super().get(key)
        except KeyError:
            from mainstem.model.errors import CorruptData

            raise CorruptData(key, 0, "the object is missing") from None


@pytest.fixture
def objects() -> SimulatedObjects:
    return MissingAsS3(SimulatedStore(Random(0), SimulatedClock()))


def test_a_later_timeline_is_taken_and_an_older_one_refused(objects: SimulatedObjects) -> None:
    for timeline in (1, 1, 2, 2):
        check_database(objects, "main", "system", timeline)
    with pytest.raises(DiskError, match="older timeline 1"):
        check_database(objects, "main", "system", 1)
    check_database(objects, "main", "system", 3)


def test_another_database_is_refused(objects: SimulatedObjects) -> None:
    check_database(objects, "main", "system", 1)
    with pytest.raises(DiskError, match="belong to another database"):
        check_database(objects, "main", "stranger", 1)
    check_database(objects, "other", "stranger", 1)
