"""As much of SQL as is read before Spark reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.sql.statements import (
    Insert,
    join_name,
    parse_insert,
    parse_name,
    quoted,
    split_statements,
    tokens_of,
)

PIECES = ["a", "b.c", "'x;y'", '"q;"', "`n;m`", "-- c;\n", "/* ; /* ; */ */", " ", "\n", "(", ")", ",", "''", "\\", "é"]


@given(st.text() | st.lists(st.sampled_from([*PIECES, ";"])).map("".join))
def test_tokens_are_all_of_the_text(text: str) -> None:
    assert "".join(token.text for token in tokens_of(text)) == text


@given(st.lists(st.lists(st.sampled_from([piece for piece in PIECES if piece != "\\"]), max_size=5).map("".join)))
def test_a_semicolon_inside_of_something_ends_nothing(texts: list[str]) -> None:
    statements, rest = split_statements("".join(f"x {text} ;" for text in texts) + "y")
    assert statements == [f"x {text}".strip() for text in texts]
    assert rest == "y"


def test_empty_statements_are_none() -> None:
    assert split_statements(" ; -- nothing\n ; select 1; ") == (["select 1"], " ")
    assert split_statements("select 'never ended; select 1;") == ([], "select 'never ended; select 1;")


@given(st.text(min_size=1))
def test_a_quoted_name_is_that_name(name: str) -> None:
    assert parse_name(quoted(name)) == [name]


@pytest.mark.parametrize(
    ("text", "parts", "expected"),
    [
        ("SELECT * FROM web.clicks", ["web", "clicks"], "SELECT * FROM `web.clicks`"),
        (
            "SELECT web.clicks.value FROM Web . `clicks`",
            ["web", "clicks"],
            "SELECT `web.clicks`.value FROM `web.clicks`",
        ),
        ("SELECT 'web.clicks' FROM my.web.clicks", ["web", "clicks"], "SELECT 'web.clicks' FROM my.web.clicks"),
        ("SELECT * FROM mainstem.groups g", ["mainstem", "groups"], "SELECT * FROM `mainstem.groups` g"),
        ("SELECT * FROM clicks", ["clicks"], "SELECT * FROM clicks"),
        ("SELECT 1.5, a.b FROM a.b", ["a", "b"], "SELECT 1.5, `a.b` FROM `a.b`"),
    ],
)
def test_a_name_of_several_parts_becomes_one(text: str, parts: list[str], expected: str) -> None:
    assert join_name(text, parts) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO orders SELECT 1", Insert("orders", [], "SELECT 1")),
        ("insert into table `a-b` (key, `value`) values (1, 'x')", Insert("a-b", ["key", "value"], "values (1, 'x')")),
        ("INSERT INTO web.clicks (SELECT 1)", Insert("web.clicks", [], "(SELECT 1)")),
        ("INSERT INTO orders", None),
        ("INSERT OVERWRITE orders SELECT 1", None),
        ("SELECT 1", None),
    ],
)
def test_inserts(text: str, expected: Insert | None) -> None:
    assert parse_insert(text) == expected
