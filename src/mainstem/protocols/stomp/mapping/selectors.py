"""The `selector` of a SUBSCRIBE: SQL92 over headers by their names, and properties as `properties.NAME`.

Headers of STOMP are text. A selector that begins with `convert_string_expressions:`, as ActiveMQ has it, takes those for numbers
that look like one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.broker.envelopes import Envelopes
from mainstem.broker.queues import InvalidSelector, Message, compile_expression
from mainstem.protocols.stomp.errors import invalid_header

CONVERTING = "convert_string_expressions:"
NUMBER_CHARACTERS_MAX = 32


def read_selector(text: str, envelopes: Envelopes) -> Callable[[Message], bool]:
    """Whether a message is wanted. Raises StompError."""
    is_converting = text.startswith(CONVERTING)
    try:
        matches = compile_expression(text.removeprefix(CONVERTING))
    except InvalidSelector as error:
        invalid_header(f"the selector cannot be read: {error}")

    def wants(message: Message) -> bool:
        properties, headers = envelopes.properties_of(message), envelopes.headers_of(message)
        facts = {f"properties.{name}": value for name, value in properties.items() if name != "headers"} | dict(headers)
        return matches(_converted(facts) if is_converting else facts)

    return wants


def _converted(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: _number(value) if isinstance(value, str) else value for name, value in facts.items()}


def _number(text: str) -> object:
    if len(text) > NUMBER_CHARACTERS_MAX or not text[:1].isascii() or text[:1].isalpha():
        return text
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
