"""Which messages a consumer wants: by tags, or by an expression of SQL92 over properties."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mainstem.broker.queues import InvalidSelector, compile_expression, compile_tags
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode

Wants: TypeAlias = Callable[[Mapping[str, str]], bool]
TAG, SQL92 = "TAG", "SQL92"
ALL = "*"
EXPRESSION_CHARACTERS_MAX = 16_384


@functools.lru_cache(4_096)
def make_filter(expression: str, kind: str = TAG) -> Wants | None:
    """None: all are wanted. Raises RequestRefused."""
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise _refusal(f"a filter has at most {EXPRESSION_CHARACTERS_MAX} characters")
    if kind == TAG:
        tags = {part.strip() for part in expression.split("||")}
        return None if tags <= {ALL, ""} else compile_tags(expression)
    if kind != SQL92:
        raise _refusal(f"filters of type {kind} are not supported")
    try:
        return compile_expression(expression)
    except InvalidSelector as error:
        raise _refusal(f"the filter cannot be read: {error}") from None


def _refusal(text: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
