"""Selectors against Python's own evaluation, and against the three values of SQL."""

import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.subscriptions.selector import (
    DEPTH_MAX,
    InvalidSelector,
    compile_expression,
    compile_headers,
    compile_tags,
)

MESSAGE: Mapping[str, object] = {
    "a": 5,
    "b": "text",
    "n": "12",
    "f": 2.5,
    "yes": True,
    "word": "true",
    "o'clock": "it's",
    "under_score": "50%",
    "d.e": 1,
}


@pytest.mark.parametrize(
    "wanted",
    [
        "a = 5",
        "a <> 6",
        "a != 6",
        "a > 4.5",
        "a >= 5",
        "a < 6 AND a <= 5",
        "n > 11",
        "n = 12",
        "n BETWEEN 10 AND 12.5",
        "'12' = n",
        "a NOT BETWEEN 6 AND 9",
        "b = 'text'",
        "b IN ('x', 'text')",
        "a IN (4, 5)",
        "b NOT IN ('x')",
        "b LIKE 't%t'",
        "b LIKE 't__t'",
        "b NOT LIKE 'x%'",
        "under_score LIKE '50!%' ESCAPE '!'",
        "missing IS NULL",
        "b IS NOT NULL",
        "yes",
        "yes = TRUE",
        "word",
        "word = TRUE",
        "NOT missing IS NOT NULL",
        "NOT (a = 6)",
        "NOT NOT a = 5",
        "a = 1 OR b = 'text'",
        "a + 1 = 6",
        "a * 2 - 3 = 7",
        "-a = -5",
        "a / 2 = f",
        "(a = 5 AND (b = 'x' OR f > 2))",
        "missing = 1 OR a = 5",
        "\"o'clock\" = 'it''s'",
        "d.e = 1",
        "a = 5L",
        "f = 2.5d",
        "f = 25e-1",
        "",
        "a between 1 and 9 and b like '%x%'",
        "a - -1 = 6",
        "NOT (missing = 1 AND a = 6)",
        "'x' LIKE 'x'",
        "b LIKE '%'",
    ],
)
def test_wanted(wanted: str) -> None:
    assert compile_expression(wanted)(MESSAGE)


@pytest.mark.parametrize(
    "unwanted",
    [
        "a = 6",
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "missing BETWEEN 1 AND 2",
        "missing IN (1)",
        "missing NOT IN (1)",
        "missing LIKE '%'",
        "missing NOT LIKE 'x'",
        "NULL = NULL",
        "a = 'five'",
        "b > 5",
        "b < 5",
        "yes > FALSE",
        "yes = 1",
        "a",
        "b",
        "a / 0 = 1",
        "b + 1 = 2",
        "missing = 1 AND a = 5",
        "b LIKE 't'",
        "b LIKE 'T%'",
        "a LIKE '5'",
        "b NOT IN ('x', NULL)",
        "NOT yes",
        "FALSE",
        "NULL",
    ],
)
def test_not_wanted(unwanted: str) -> None:
    assert not compile_expression(unwanted)(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "a =",
        "= 5",
        "a = 5 b",
        "(a = 5",
        "a = 5)",
        "a IN ()",
        "a IN 5",
        "a BETWEEN 1",
        "a LIKE 5",
        "a IS 5",
        "a NOT 5",
        "'open",
        "a & b",
        "AND",
        "a LIKE 'x' ESCAPE 'xx'",
        "a LIKE 'x!' ESCAPE '!'",
        "NOT",
        "a = 5 OR",
        "99999999999999999999 = a",
        "a;b",
        "a = \x00",
        "(" * (DEPTH_MAX + 2) + "a" + ")" * (DEPTH_MAX + 2),
        "a = " + "1" * 9000,
        "a IN (" + "1," * 1001 + "1)",
        "a.=5",
    ],
)
def test_not_an_expression(text: str) -> None:
    with pytest.raises(InvalidSelector):
        compile_expression(text)


def test_long_chains_are_not_deep() -> None:
    assert compile_expression("NOT " * 1000 + "yes")(MESSAGE)
    assert compile_expression("-" * 1000 + "a = 5")(MESSAGE)
    assert compile_expression(" OR ".join(["a = 6"] * 800 + ["a = 5"]))(MESSAGE)


def test_a_pattern_cannot_make_a_message_expensive() -> None:
    wanted = compile_expression("x LIKE '" + "%a" * 500 + "%b'")
    began = time.process_time()
    assert not wanted({"x": "a" * 5_000})
    assert time.process_time() - began < 0.5


@given(st.text("ab%_x", max_size=8), st.text("abx", max_size=8))
def test_like(pattern: str, text: str) -> None:
    def naive(p: str, t: str) -> bool:
        if not p:
            return not t
        if p[0] == "%":
            return any(naive(p[1:], t[skipped:]) for skipped in range(len(t) + 1))
        return bool(t) and p[0] in ("_", t[0]) and naive(p[1:], t[1:])

    assert compile_expression(f"x LIKE '{pattern}'")({"x": text}) is naive(pattern, text)


ATOMS = st.sampled_from([("t", True), ("f", False), ("u", None)])


@st.composite
def logic(draw: st.DrawFn, depth: int = 4) -> tuple[str, bool | None]:
    """An expression, and what it comes to in three-valued logic."""
    if depth == 0 or draw(st.booleans()):
        return draw(ATOMS)
    kind = draw(st.sampled_from(["AND", "OR", "NOT"]))
    left, a = draw(logic(depth - 1))
    if kind == "NOT":
        return f"NOT ({left})", None if a is None else not a
    right, b = draw(logic(depth - 1))
    if kind == "AND":
        value = False if a is False or b is False else None if a is None or b is None else True
    else:
        value = True if a is True or b is True else None if a is None or b is None else False
    return f"({left}) {kind} ({right})", value


@given(logic())
def test_three_values(case: tuple[str, bool | None]) -> None:
    text, expected = case
    message = {"t": True, "f": False}
    assert compile_expression(text)(message) is (expected is True)
    assert compile_expression(f"NOT ({text})")(message) is (expected is False)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        compile_expression(text)(MESSAGE)
    except InvalidSelector:
        pass


def test_tags_and_headers() -> None:
    assert compile_tags("*")({})
    assert compile_tags("A || B")({"TAGS": "B"})
    assert not compile_tags("A||B")({"TAGS": "C"})
    assert not compile_tags("A")({})
    assert compile_headers({"x-match": "any", "a": 1})({"a": 1, "b": 2})
