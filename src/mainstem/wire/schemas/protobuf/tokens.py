"""The words of a .proto text."""

from __future__ import annotations

import re
from typing import NamedTuple

from mainstem.wire.schemas.schema import InvalidSchema

_WORD = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<int>0[xX][0-9a-fA-F]+|\d+)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<sign>[{}\[\]()<>=;,.:/+-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class Word(NamedTuple):
    """One of them."""

    kind: str
    text: str
    place: int


class Words:
    """Of one text, taken from the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[Word] = []
        self._at = 0
        place = 0
        while place < len(text):
            match = _WORD.match(text, place)
            if match is None:
                raise InvalidSchema(
                    f"line {self._line(place)}: {text[place : place + 10]!r} is not part of the language"
                )
            if match.lastgroup != "space":
                self._words.append(Word(str(match.lastgroup), match.group(), place))
            place = match.end()
        self._end = Word("end", "the end", len(text))

    @property
    def next(self) -> Word:
        """The one that comes."""
        return self._words[self._at] if self._at < len(self._words) else self._end

    @property
    def is_done(self) -> bool:
        """Whether none is left."""
        return self._at >= len(self._words)

    def take(self) -> Word:
        """The one that comes, whatever it is."""
        word = self.next
        if word is self._end:
            raise self.wrong("something more")
        self._at += 1
        return word

    def has(self, text: str) -> bool:
        """Take this one if it comes."""
        if self.next.text == text and self.next.kind != "text":
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take this one. Raises InvalidSchema."""
        if not self.has(text):
            raise self.wrong(repr(text))

    def name(self) -> str:
        """Take a name without dots."""
        if self.next.kind != "name":
            raise self.wrong("a name")
        return self.take().text

    def full_name(self) -> str:
        """Take a name with dots."""
        parts = ["."] if self.has(".") else []
        parts.append(self.name())
        while self.has("."):
            parts += [".", self.name()]
        return "".join(parts)

    def number(self) -> int:
        """Take a whole number."""
        sign = -1 if self.has("-") else 1
        if self.next.kind != "int":
            raise self.wrong("a number")
        return sign * whole(self.take().text)

    def string(self) -> str:
        """Take a text, in one or more parts."""
        try:
            return self.octets().decode()
        except UnicodeDecodeError:
            raise self.wrong("a text in UTF-8") from None

    def octets(self) -> bytes:
        """Take a text whose escapes may be any bytes."""
        if self.next.kind != "text":
            raise self.wrong("a text")
        parts = []
        while self.next.kind == "text":
            parts.append(_unescape(self.take().text[1:-1].encode()))
        return b"".join(parts)

    def wrong(self, wanted: str) -> InvalidSchema:
        """That something else should have come."""
        word = self.next
        return InvalidSchema(f"line {self._line(word.place)}: {wanted} is expected, not {word.text[:50]!r}")

    def _line(self, place: int) -> int:
        return self._text.count("\n", 0, place) + 1


def whole(text: str) -> int:
    """A number as the language writes it. Raises InvalidSchema."""
    if len(text) > 30:
        raise InvalidSchema(f"the number {text[:30]}... is too large")
    try:
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        raise InvalidSchema(f"{text} is not a number") from None


def _unescape(text: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, short, long, other = match.groups()
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        if octal:
            return bytes([int(octal, 8) & 255])
        if short or long:
            point = int(short or long, 16)
            return chr(point).encode("utf-8", "replace") if point < 0x110000 else b"?"
        return _PLAIN.get(other, other)

    return _ESCAPE.sub(plain, text) if b"\\" in text else text
