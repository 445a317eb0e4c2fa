"""Which messages a consumer wants: by tags, or by an expression of SQL92 over properties."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mainstem.protocols.rocketmq.mapping.messages import TAGS

Wants: TypeAlias = Callable[[Mapping[str, str]], bool]
TAG, SQL92 = "TAG", "SQL92"
ALL = "*"


@functools.lru_cache(4_096)
def tag_filter(expression: str) -> Wants | None:
    """`A || B`; None: all."""
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags or ALL in tags:
        return None
    return lambda properties: properties.get(TAGS, "") in tags
