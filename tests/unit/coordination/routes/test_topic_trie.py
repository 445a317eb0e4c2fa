"""Topic patterns against a matcher that tries everything."""

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.routes.topic_trie import TopicTrie, words_of

WORDS = st.sampled_from(["a", "b", "", "*", "#"])
TEXTS = st.lists(WORDS, max_size=6).map(".".join)


def matches(pattern: list[str], key: list[str]) -> bool:
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8))
def test_the_trie_matches_what_the_naive_matcher_does(patterns: list[str], keys: list[str]) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for number, pattern in enumerate(patterns):
        trie.add(pattern, number)
    for key in keys:
        naive = [number for number, pattern in enumerate(patterns) if matches(words_of(pattern), words_of(key))]
        assert sorted(trie.match(key)) == naive


@given(st.lists(TEXTS, max_size=8), st.data())
def test_what_is_removed_leaves_nothing(patterns: list[str], data: st.DataObject) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for number, pattern in enumerate(patterns):
        trie.add(pattern, number)
    for number in data.draw(st.permutations(range(len(patterns)))):
        assert number in list(trie.match(patterns[number]))
        trie.remove(patterns[number], number)
        assert number not in list(trie.match(patterns[number]))
        if number % 2:
            trie.add(patterns[number], number)
            trie.remove(patterns[number], number)
    assert not trie._root.next
    assert not trie._root.here
    assert not trie._root.rest


def test_many_wildcards_cost_no_more_than_their_places() -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add(".".join(["#"] * 60 + ["end"]), "found")
    began = time.process_time()
    assert list(trie.match(".".join(["x"] * 120))) == []
    assert list(trie.match(".".join(["x"] * 120 + ["end"]))) == ["found"]
    assert time.process_time() - began < 1, "patterns are followed together, not one by one"


@pytest.mark.parametrize(
    ("ends", "wildcards"), [("#.nowhere", 8), ("#.a.b.a.a", 8), ("b", 3)], ids=["missing word", "missing run", "few"]
)
def test_a_key_costs_what_the_patterns_are_long_not_that_times_its_own_length(ends: str, wildcards: int) -> None:
    """20,000 patterns of many wildcards took seconds for one key of 61 words."""
    chance = random.Random(17)
    letters = string.ascii_lowercase[:10]
    trie: TopicTrie[int] = TopicTrie()
    for number in range(20_000):
        trie.add(".".join(f"#.{chance.choice(letters)}" for _ in range(wildcards)) + f".{ends}", number)
    short, long = (".".join(letters[at % 10] for at in range(words)) for words in (61, 127))
    for key in (short, long):
        began = time.process_time()
        found = list(trie.match(key))
        assert time.process_time() - began < 0.5, f"{len(key.split('.'))} words"
        assert bool(found) == (ends == "b" and key.endswith("b"))
