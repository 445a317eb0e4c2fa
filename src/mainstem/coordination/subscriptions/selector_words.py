"""The words of a selector."""

from __future__ import annotations

import re
from typing import NamedTuple

from mainstem.model.errors import PeerError

EXPRESSION_CHARACTERS_MAX = 8_192

_KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"},
)
_CONSTANTS = {"TRUE": True, "FALSE": False}
_WORD = re.compile(
    r"""\s*(?:
        (?P<number> (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[lLfFdD]? )
      | (?P<name> [^\W\d][\w.$-]*(?<![.-]) )
      | '(?P<text> (?:[^']|'')* )'
      | "(?P<quoted> (?:[^"]|"")+ )"
      | (?P<symbol> <> | != | <= | >= | [=<>(),*/+-] )
      | (?P<end> $ )
    )""",
    re.VERBOSE,
)


class InvalidSelector(PeerError):
    """Not an expression that a filter can be made of."""


class Token(NamedTuple):
    """One word: what it is, what it stands for, where it begins."""

    symbol: str
    value: object
    position: int

    def describe(self) -> str:
        """As text, for the author of the selector."""
        return "the end" if self.symbol == "end" else repr(self.value if self.value is not None else self.symbol)


def tokens_of(text: str) -> list[Token]:
    """The words of an expression, the end included. Raises InvalidSelector."""
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise InvalidSelector(f"an expression has at most {EXPRESSION_CHARACTERS_MAX} characters")
    tokens: list[Token] = []
    position = 0
    while True:
        found = _WORD.match(text, position)
        if found is None or found.lastgroup is None:
            raise InvalidSelector(f"nothing is meant by {text[position : position + 10].strip()!r} at {position}")
        tokens.append(_token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
        if found.lastgroup == "end":
            return tokens
        position = found.end()


def _token(kind: str, text: str, position: int) -> Token:
    if kind == "number":
        return Token("number", _number(text), position)
    if kind == "text":
        return Token("text", text.replace("''", "'"), position)
    if kind == "quoted":
        return Token("name", text.replace('""', '"'), position)
    if kind == "name":
        upper = text.upper()
        if upper in _KEYWORDS:
            return Token(upper, _CONSTANTS.get(upper), position)
        return Token("name", text, position)
    return Token("<>" if text == "!=" else text if kind == "symbol" else "end", None, position)


def _number(text: str) -> int | float:
    plain = text.rstrip("lLfFdD")
    if plain.isdecimal():
        if len(plain) > 19:
            raise InvalidSelector(f"{plain[:25]} is too long a number")
        return int(plain)
    return float(plain)
