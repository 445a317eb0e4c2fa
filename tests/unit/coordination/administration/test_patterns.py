"""Patterns of others are matched in bounded time, or refused."""

import re
import time

import pytest

from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.coordination.administration.patterns import check_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".*",
        "^amq\\.",
        "^(a|b)$",
        "(one|two.*)",
        "^(?!amq\\.).*",
        "[a-z*+]+",
        "a{2,5}b",
        r"\(a*\)*",
        "(?:x)+",
        "(a?)b",
    ],
)
def test_taken(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a*)*", "((a*)b)+", "(?:a|b+)*c", "(a{1,})+", "(x+x+)+y", "(", "a" * 2_000, "a*" * 100, "(?i:(a+))*"],
)
def test_refused(pattern: str) -> None:
    with pytest.raises(InvalidEntry):
        check_pattern(pattern)


def test_what_is_taken_ends_soon() -> None:
    began = time.process_time()
    re.compile(".*a.*b.*c$").search("ab" * 127)
    assert time.process_time() - began < 1
