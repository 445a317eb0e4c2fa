"""Filters: which messages a consumer wants, by tag, by header, or by an SQL92 expression as JMS and RocketMQ have it.

    expression   term {OR term}          term   factor {AND factor}          factor   [NOT] factor | predicate
    predicate    value [ (= | <> | < | <= | > | >=) value | [NOT] BETWEEN value AND value | [NOT] IN (value, ...)
                 | [NOT] LIKE 'pattern' [ESCAPE 'c'] | IS [NOT] NULL ]
    value        sums, products and signs over: name | number | 'text' | TRUE | FALSE | NULL | ( expression )

A property that is not there is NULL, and what is compared with it is unknown: neither true nor false. A message is wanted when
the whole is true. Texts are compared with numbers as numbers if they are written so, because most protocols carry
properties as text; with that exception, values of different types are never equal, and have no order.

An expression becomes closures once, and each message costs as many calls as it has parts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from mainstem.coordination.routes.headers_index import headers_match
from mainstem.coordination.subscriptions.selector_words import InvalidSelector, Token, tokens_of

DEPTH_MAX = 64
"""Of parentheses, signs and negations within each other."""
CHOICES_MAX = 1_000
"""Of one IN."""

Properties: TypeAlias = Mapping[str, object]
Value: TypeAlias = Callable[[Properties], object]
Matches: TypeAlias = Callable[[Properties], bool]

__all__ = ["InvalidSelector", "Matches", "compile_expression", "compile_headers", "compile_tags"]


def compile_tags(text: str, tag_property: str = "TAGS") -> Matches:
    """Tags as RocketMQ writes them: `A || B`, or `*` for all."""
    tags = frozenset(tag.strip() for tag in text.split("||"))
    if tags <= {"*", ""}:
        return lambda properties: True
    return lambda properties: properties.get(tag_property) in tags


def compile_headers(arguments: Properties) -> Matches:
    """As a binding of a headers exchange: `x-match` all or any of them."""
    return lambda properties: headers_match(arguments, properties)


def compile_expression(text: str) -> Matches:
    """An SQL92 expression. Raises InvalidSelector."""
    if not text.strip():
        return lambda properties: True
    parser = _Parser(tokens_of(text))
    value = _logic(parser.expression(0))
    parser.expect_end()
    return lambda properties: value(properties) is True


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    # Words

    def _peek(self, *symbols: str) -> bool:
        return self._tokens[self._at].symbol in symbols

    def _take(self, *symbols: str) -> str | None:
        symbol = self._tokens[self._at].symbol
        if symbol not in symbols:
            return None
        self._at += 1
        return symbol

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expect(self, symbol: str) -> None:
        if self._take(symbol) is None:
            raise self._unexpected(symbol)

    def _unexpected(self, wanted: str) -> InvalidSelector:
        token = self._tokens[self._at]
        return InvalidSelector(f"{wanted} is expected at {token.position}, not {token.describe()}")

    def expect_end(self) -> None:
        """Nothing is left."""
        if not self._peek("end"):
            raise self._unexpected("the end")

    # Logic

    def expression(self, depth: int) -> Value:
        """Terms with OR."""
        if depth > DEPTH_MAX:
            raise InvalidSelector(f"parts are nested more than {DEPTH_MAX} deep")
        parts = [self._term(depth)]
        while self._take("OR"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else _either([_logic(part) for part in parts])

    def _term(self, depth: int) -> Value:
        parts = [self._factor(depth)]
        while self._take("AND"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else _both([_logic(part) for part in parts])

    def _factor(self, depth: int) -> Value:
        negations = 0
        while self._take("NOT"):
            negations += 1
        value = self._predicate(depth)
        if not negations:
            return value
        value = _logic(value)
        return _negate(value) if negations % 2 else value

    def _predicate(self, depth: int) -> Value:
        left = self._sum(depth)
        symbol = self._take("=", "<>", "<", "<=", ">", ">=")
        if symbol is not None:
            return _compare(symbol, left, self._sum(depth))
        if self._take("IS"):
            wants_value = self._take("NOT") is not None
            self._expect("NULL")
            return lambda properties: (left(properties) is not None) is wants_value
        negated = self._take("NOT") is not None
        if self._take("BETWEEN"):
            low = self._sum(depth)
            self._expect("AND")
            within = _both([_compare(">=", left, low), _compare("<=", left, self._sum(depth))])
        elif self._take("IN"):
            within = _among(left, self._choices(depth))
        elif self._take("LIKE"):
            within = self._like(left)
        elif negated:
            raise self._unexpected("BETWEEN, IN or LIKE")
        else:
            return left
        return _negate(within) if negated else within

    def _choices(self, depth: int) -> list[Value]:
        self._expect("(")
        choices = [self._sum(depth)]
        while self._take(","):
            choices.append(self._sum(depth))
            if len(choices) > CHOICES_MAX:
                raise InvalidSelector(f"IN has more than {CHOICES_MAX} choices")
        self._expect(")")
        return choices

    def _like(self, left: Value) -> Value:
        pattern, escape = self._text(), ""
        if self._take("ESCAPE"):
            escape = self._text()
            if len(escape) != 1:
                raise InvalidSelector("ESCAPE is one character")
        matches = _like_pattern(pattern, escape).fullmatch

        def like(properties: Properties) -> object:
            value = left(properties)
            return matches(value) is not None if isinstance(value, str) else None

        return like

    def _text(self) -> str:
        if not self._peek("text"):
            raise self._unexpected("a text")
        return str(self._next().value)

    # Values

    def _sum(self, depth: int) -> Value:
        value = self._product(depth)
        while (symbol := self._take("+", "-")) is not None:
            value = _calculate(symbol, value, self._product(depth))
        return value

    def _product(self, depth: int) -> Value:
        value = self._signed(depth)
        while (symbol := self._take("*", "/")) is not None:
            value = _calculate(symbol, value, self._signed(depth))
        return value

    def _signed(self, depth: int) -> Value:
        minus = False
        while (symbol := self._take("+", "-")) is not None:
            minus = minus is not (symbol == "-")
        value = self._atom(depth)
        return _calculate("-", lambda properties: 0, value) if minus else value

    def _atom(self, depth: int) -> Value:
        if self._take("("):
            value = self.expression(depth + 1)
            self._expect(")")
            return value
        if not self._peek("name", "number", "text", "TRUE", "FALSE", "NULL"):
            raise self._unexpected("a value")
        token = self._next()
        constant = token.value
        if token.symbol == "name":
            name = str(constant)
            return lambda properties: properties.get(name)
        return lambda properties: constant


def _either(parts: list[Value]) -> Value:
    def either(properties: Properties) -> object:
        unknown = False
        for part in parts:
            value = part(properties)
            if value is True:
                return True
            unknown = unknown or value is None
        return None if unknown else False

    return either


def _both(parts: list[Value]) -> Value:
    def both(properties: Properties) -> object:
        unknown = False
        for part in parts:
            value = part(properties)
            if value is False:
                return False
            unknown = unknown or value is None
        return None if unknown else True

    return both


def _negate(part: Value) -> Value:
    def negate(properties: Properties) -> object:
        value = part(properties)
        return None if value is None else not value

    return negate


def _logic(part: Value) -> Value:
    """True, false or unknown: whatever else a value is, is unknown."""

    def logic(properties: Properties) -> object:
        value = part(properties)
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None

    return logic


_COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def _compare(symbol: str, left: Value, right: Value) -> Value:
    is_order = symbol not in ("=", "<>")
    test = _COMPARISONS[symbol]

    def compare(properties: Properties) -> object:
        pair = _alike(left(properties), right(properties))
        if pair is None or (is_order and isinstance(pair[0], bool)):
            return None
        return test(*pair)

    return compare


def _alike(left: object, right: object) -> tuple[object, object] | None:
    """Both as values of one type; None when they cannot be compared."""
    if left is None or right is None:
        return None
    for constant, other, swap in ((left, right, False), (right, left, True)):
        if not isinstance(constant, str) and isinstance(other, str):
            other_value = _as_boolean(other) if isinstance(constant, bool) else _as_number(other)
            if other_value is None:
                return None
            return (other_value, constant) if swap else (constant, other_value)
    if isinstance(left, bool) is not isinstance(right, bool):
        return None
    is_number = isinstance(left, int | float) and isinstance(right, int | float)
    return (left, right) if is_number or type(left) is type(right) else None


def _as_number(text: str) -> float | int | None:
    if len(text) > 40:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _as_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _among(left: Value, choices: Iterable[Value]) -> Value:
    return _either([_compare("=", left, choice) for choice in choices])


_CALCULATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _calculate(symbol: str, left: Value, right: Value) -> Value:
    function = _CALCULATIONS[symbol]

    def calculate(properties: Properties) -> object:
        a, b = _number(left(properties)), _number(right(properties))
        if a is None or b is None:
            return None
        try:
            # Products of whole numbers would grow without bound.
            return function(float(a), float(b)) if symbol in "*/" else function(a, b)
        except (ZeroDivisionError, OverflowError):
            return None

    return calculate


def _number(value: object) -> float | int | None:
    if isinstance(value, str):
        return _as_number(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """`%` is any text, `_` any character. Neighbouring `%` are one, and what follows one is taken where it first fits.

    So matching never goes back: a pattern cannot make a message cost more than its length times the pattern's.
    """
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise InvalidSelector("the pattern ends with its escape character")
            pieces[-1].append(re.escape(escaped))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    texts = ["".join(piece) for piece in pieces]
    if len(texts) == 1:
        return re.compile(texts[0], re.DOTALL)
    middle = "".join(f"(?>.*?{text})" for text in texts[1:-1] if text)
    return re.compile(f"{texts[0]}{middle}.*{texts[-1]}", re.DOTALL)
