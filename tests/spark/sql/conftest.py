"""A broker with some orders."""

from collections.abc import Iterator

import pytest

from tests.spark.sql.everything import Everything


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    broker = Everything(tmp_path_factory.mktemp("sql-command") / "data")
    broker.create("orders")
    broker.send("orders", *(b'{"id": %d, "country": "%s"}' % (n, b"NL" if n % 2 else b"DE") for n in range(10)))
    yield broker
    broker.kill()
