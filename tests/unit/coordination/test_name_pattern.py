"""Patterns of clients: matched whole, refused when they are none, never slow."""

import pytest

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.errors import InvalidNamePattern


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("a.*", "abc", True),
        ("b", "abc", False),
        ("a|abc", "abc", True),
        ("(?i)ABC", "abc", True),
        ("größe-.", "größe-1", True),
        ("", "a", False),
    ],
)
def test_a_name_matches_as_a_whole(text: str, name: str, matches: bool) -> None:
    assert NamePattern.compile(text).matches(name) is matches


@pytest.mark.parametrize("text", ["a(", "(?=a)", "(a)\\1", "a{1000}{1000}", "x" * 100_000, "\ud800"])
def test_what_is_no_pattern_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(InvalidNamePattern):
        NamePattern.compile(text)


def test_no_pattern_takes_more_time_than_the_name_is_long() -> None:
    assert not NamePattern.compile("(a+)+b").matches("a" * 100_000)
