"""Text to statements, and to the names in them: as much of SQL as has to be read before Spark reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*(?:\n|\Z))
    | (?P<comment>/\*)
    | (?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """A piece of a text, and where it stands."""

    kind: str
    """space, text, quoted, word or other."""
    text: str
    begin: int

    @property
    def end(self) -> int:
        """Behind it."""
        return self.begin + len(self.text)

    @property
    def name(self) -> str | None:
        """What it names, if it can be a name."""
        if self.kind == "word":
            return self.text
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else None


class Insert(NamedTuple):
    """INSERT INTO name (columns) query."""

    target: str
    columns: Sequence[str]
    """Empty: those of the query, by their names."""
    query: str


def tokens_of(text: str) -> Iterator[Token]:
    """All of the text; comments are space. What is never ended goes to the end."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None, "any character is a token"
        kind, end = found.lastgroup or "other", found.end()
        if kind == "comment":
            kind, end = "space", _comment_end(text, end)
        elif kind == "other" and found[0] in "'\"`":
            kind, end = ("quoted" if found[0] == "`" else "text"), len(text)
        yield Token(kind, text[position:end], position)
        position = end


def _comment_end(text: str, position: int) -> int:
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, position):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)


def split_statements(text: str) -> tuple[list[str], str]:
    """Those that a semicolon ends, and what is behind the last one."""
    statements, begin = [], 0
    for token in tokens_of(text):
        if token.kind == "other" and token.text == ";":
            statements.append(text[begin : token.begin].strip())
            begin = token.end
    return [one for one in statements if words_of(one)], text[begin:]


def words_of(text: str) -> list[Token]:
    """Without space."""
    return [token for token in tokens_of(text) if token.kind != "space"]


def quoted(name: str) -> str:
    """As one name, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def parse_name(text: str) -> list[str]:
    """From `a`.`b`, as Spark writes a name of several parts."""
    return [token.name or "" for token in words_of(text) if token.name is not None]


def join_name(text: str, parts: Sequence[str]) -> str:
    """The text with this name of several parts as one name in quotes, wherever it stands or begins a longer one."""
    if len(parts) < 2:
        return text
    words = words_of(text)
    pieces, done, index = [], 0, 0
    while index < len(words):
        chain = _chain_at(words, index)
        names = [word.name for word in chain[::2]]
        if len(names) >= len(parts) and [str(name).lower() for name in names[: len(parts)]] == [
            part.lower() for part in parts
        ]:
            last = chain[2 * len(parts) - 2]
            pieces += [text[done : chain[0].begin], quoted(".".join(parts))]
            done = last.end
        index += max(len(chain), 1)
    return "".join([*pieces, text[done:]])


def _chain_at(words: Sequence[Token], index: int) -> list[Token]:
    """Names with dots between them, from here on."""
    chain: list[Token] = []
    while index < len(words) and words[index].name is not None:
        chain.append(words[index])
        if index + 2 >= len(words) or words[index + 1].text != "." or words[index + 2].name is None:
            break
        chain.append(words[index + 1])
        index += 2
    return chain


def parse_insert(text: str) -> Insert | None:
    """None if it is another statement."""
    words = words_of(text)
    if [word.text.upper() for word in words[:2]] != ["INSERT", "INTO"]:
        return None
    index = 3 if len(words) > 2 and words[2].text.upper() == "TABLE" else 2
    chain = _chain_at(words, index)
    if not chain:
        return None
    index += len(chain)
    columns: list[str] = []
    if index < len(words) and words[index].text == "(" and _is_list_of_names(words, index):
        index += 1
        while words[index].text != ")":
            if words[index].name is not None:
                columns.append(words[index].name or "")
            index += 1
        index += 1
    if index >= len(words):
        return None
    return Insert(".".join(word.name or "" for word in chain[::2]), columns, text[words[index].begin :])


def _is_list_of_names(words: Sequence[Token], index: int) -> bool:
    """And not a query in parentheses."""
    if index + 1 < len(words) and words[index + 1].text.upper() in ("SELECT", "WITH", "VALUES", "FROM", "("):
        return words[index + 1].kind == "quoted"
    return any(word.text == ")" for word in words[index:])
