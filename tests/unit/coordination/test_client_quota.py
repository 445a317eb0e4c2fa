"""For whom limits can be set, and which of several holds."""

import math

import pytest

from mainstem.coordination.clients.quota import ADDRESS, CLIENT, USER, LimitTable, check_limit, entity_of
from mainstem.coordination.errors import InvalidQuota

ORDER = [
    ([(USER, "u"), (CLIENT, "c")], ("u", "c")),
    ([(USER, "u"), (CLIENT, None)], ("u", "c")),
    ([(USER, "u")], ("u", "")),
    ([(USER, None), (CLIENT, "c")], ("u", "c")),
    ([(USER, None), (CLIENT, None)], ("u", "c")),
    ([(USER, None)], ("u", "")),
    ([(CLIENT, "c")], ("", "c")),
    ([(CLIENT, None)], ("", "c")),
]


def test_the_most_particular_limit_holds() -> None:
    numbers = {entity_of(parts): float(rank) for rank, (parts, _) in enumerate(ORDER, 1)}
    for rank, (parts, bearer) in enumerate(ORDER, 1):
        assert LimitTable(numbers).of_client("u", "c") == (rank, bearer)
        del numbers[entity_of(parts)]
    assert LimitTable(numbers).of_client("u", "c") is None
    addresses = {entity_of([(ADDRESS, None)]): 1.0, entity_of([(ADDRESS, "10.0.0.1")]): 2.0}
    assert LimitTable(addresses).of_address("10.0.0.1") == (2, ("10.0.0.1", ""))
    assert LimitTable(addresses).of_address("10.0.0.2") == (1, ("10.0.0.2", ""))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("team", "a")],
        [(USER, "")],
        [(USER, "a"), (USER, "b")],
        [(ADDRESS, "10.0.0.1"), (USER, "a")],
        [(ADDRESS, "nowhere")],
        [(USER, "x" * 2_000)],
    ],
)
def test_entities_that_cannot_be(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(InvalidQuota):
        entity_of(parts)


@pytest.mark.parametrize(
    ("kind", "key", "number", "is_fine"),
    [
        (USER, "producer_byte_rate", 1024.0, True),
        (USER, "producer_byte_rate", None, True),
        (USER, "producer_byte_rate", 0.5, False),
        (USER, "producer_byte_rate", 2.0**63, False),
        (CLIENT, "consumer_byte_rate", 0.0, False),
        (CLIENT, "request_percentage", 0.5, True),
        (CLIENT, "request_percentage", math.nan, False),
        (CLIENT, "controller_mutation_rate", math.inf, False),
        (CLIENT, "connection_creation_rate", 1.0, False),
        (ADDRESS, "connection_creation_rate", 1.0, True),
        (ADDRESS, "connection_creation_rate", -1.0, False),
        (ADDRESS, "producer_byte_rate", 1.0, False),
        (USER, "unheard_of", None, False),
    ],
)
def test_limits_that_can_be(kind: str, key: str, number: float | None, is_fine: bool) -> None:
    entity = entity_of([(kind, None)])
    if is_fine:
        check_limit(entity, key, number)
        return
    with pytest.raises(InvalidQuota):
        check_limit(entity, key, number)
