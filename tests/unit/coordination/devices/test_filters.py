"""Filters of topics in levels, and rules by which those lie on logs: against a plain model, and forth and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.devices.errors import InvalidFilter, InvalidTopicLevels, InvalidTopicRule
from mainstem.coordination.devices.filter_trie import FilterTrie, NameTrie
from mainstem.coordination.devices.topic_filters import LEVELS_MAX, SharedFilter, check_filter, check_name
from mainstem.coordination.devices.topic_rules import Place, TopicRule, TopicRules, check_rules

words = st.sampled_from(["a", "b", "", "$SYS", "long word"])
names = st.lists(words, min_size=1, max_size=5).map("/".join).filter(bool)
filters = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(st.one_of(words, st.just("+")), min_size=1, max_size=4),
    st.sampled_from([(), ("#",)]),
).filter(bool)


def fits(text: str, name: str) -> bool:
    """As the standard tells it, level by level."""
    levels, parts = text.split("/"), name.split("/")
    if name.startswith("$") and levels[0] in "+#":
        return False
    for number, level in enumerate(levels):
        if level == "#":
            return True
        if number >= len(parts) or level not in ("+", parts[number]):
            return False
    return len(levels) == len(parts) or False


def fits_with_parent(text: str, name: str) -> bool:
    return fits(text, name) or (text.endswith("/#") and fits(text[:-2], name))


@given(st.lists(st.one_of(filters, st.just("#")), max_size=12), st.lists(names, max_size=6), st.data())
def test_a_trie_finds_what_fits(texts: list[str], topics: list[str], data: st.DataObject) -> None:
    trie: FilterTrie[int] = FilterTrie()
    for number, text in enumerate(texts):
        trie.add(text, number)
    gone = data.draw(st.sets(st.sampled_from(range(len(texts))))) if texts else set()
    for number in gone:
        trie.remove(texts[number], number)
    for name in topics:
        expected = [n for n, text in enumerate(texts) if n not in gone and fits_with_parent(text, name)]
        assert sorted(trie.match(name)) == expected
    assert trie.count == len(texts) - len(gone)


@given(st.lists(names, max_size=12, unique=True), st.one_of(filters, st.just("#")), st.data())
def test_names_are_found_by_a_filter(topics: list[str], text: str, data: st.DataObject) -> None:
    trie: NameTrie[str] = NameTrie()
    for name in topics:
        trie.put(name, name)
    gone = data.draw(st.sets(st.sampled_from(topics))) if topics else set()
    for name in gone:
        trie.remove(name)
    expected = [name for name in topics if name not in gone and fits_with_parent(text, name)]
    assert sorted(trie.match(text)) == sorted(expected)


@pytest.mark.parametrize(
    "text", ["", "a+", "a/#/b", "#a", "a/b#", "+a/b", "\0", "$share/g", "$share//a", "$share/g+/a", "$share"]
)
def test_a_filter_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        check_filter(text)


def test_a_filter_has_bounded_levels() -> None:
    assert check_filter("$share/g/a/#") == SharedFilter("g", "a/#")
    check_filter("/".join(["a"] * LEVELS_MAX))
    with pytest.raises(InvalidFilter):
        check_filter("/".join(["a"] * (LEVELS_MAX + 1)))
    with pytest.raises(InvalidTopicLevels):
        check_name("/".join(["a"] * (LEVELS_MAX + 1)))


RULES = TopicRules(
    (
        TopicRule("sensors/+/reading", "sensors", "{1}"),
        TopicRule("plants/+/lines/#", "plants", "{2}@{1}"),
        TopicRule("live/#", stored=False),
        TopicRule("lost/+/+", "lost", "{1}"),
    )
)


def test_the_first_rule_that_fits_counts() -> None:
    assert RULES.place_of("sensors/7/reading") == Place("sensors", "7")
    assert RULES.place_of("sensors/7/state") == Place("mqtt", "sensors/7/state")
    assert RULES.place_of("plants/p1/lines/4/x") == Place("plants", "4/x@p1")
    assert RULES.place_of("live/now").topic is None


def test_a_record_finds_its_topic_where_its_key_tells_it() -> None:
    assert RULES.name_of("sensors", "7") == "sensors/7/reading"
    assert RULES.name_of("plants", "4/x@p1") == "plants/p1/lines/4/x"
    assert RULES.name_of("mqtt", "any/where") == "any/where"
    assert RULES.name_of("mqtt", "live/now") is None, "another rule takes that one"
    assert RULES.name_of("lost", "a") is None, "one of two wildcards is not in the key"
    assert RULES.name_of("elsewhere", "a") is None


@given(names.filter(lambda name: not name.startswith("$")))
def test_rules_run_backwards(name: str) -> None:
    place = RULES.place_of(name)
    if place.topic is not None and not name.startswith("lost"):
        assert RULES.name_of(place.topic, place.key) == name


@pytest.mark.parametrize(
    "rule",
    [
        TopicRule("a/#/b"),
        TopicRule("$share/g/a"),
        TopicRule("$SYS/#"),
        TopicRule("a/+", key="{2}"),
        TopicRule("a", topic="no topic"),
        TopicRule("a", key="k" * 2_000),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule: TopicRule) -> None:
    with pytest.raises(InvalidTopicRule):
        check_rules([rule])
