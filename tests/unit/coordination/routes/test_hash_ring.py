"""The ring keeps keys where they are."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.routes.hash_ring import HashRing, jump

KEYS = [f"key-{number}".encode() for number in range(4_000)]


def test_jump_is_the_published_function() -> None:
    # Known answers of jump consistent hash for key and number of buckets.
    assert [
        jump(key, buckets) for key, buckets in [(1, 1), (42, 57), (0xDEAD10CC, 1), (0xDEAD10CC, 666), (256, 1024)]
    ] == [
        0,
        43,
        0,
        361,
        520,
    ]


@given(st.integers(0, 2**64 - 1), st.integers(1, 5_000))
def test_a_bucket_more_takes_keys_and_moves_none_between_the_others(key: int, buckets: int) -> None:
    before, after = jump(key, buckets), jump(key, buckets + 1)
    assert after in (before, buckets)


def test_weights_are_shares() -> None:
    ring = HashRing([("one", 1), ("three", 3)])
    counts = Counter(ring.choose(key) for key in KEYS)
    assert 0.7 < counts["three"] / len(KEYS) < 0.8


def test_a_destination_added_last_takes_its_share_from_all() -> None:
    before, after = HashRing([("a", 2), ("b", 2)]), HashRing([("a", 2), ("b", 2), ("c", 2)])
    for key in KEYS:
        assert after.choose(key) in (before.choose(key), "c")


def test_nobody_is_chosen_from_nobody() -> None:
    assert HashRing([]).choose(b"key") is None
