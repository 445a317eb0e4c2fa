"""What a batch and a mutation are once sequenced: shared by what is pending and what is stored."""

from __future__ import annotations

from typing import TypeAlias

FLAG_PRODUCER, FLAG_TRANSACTIONAL, FLAG_CONTROL = 1, 2, 4
"""What is worth knowing of a batch without looking into it."""

StateItem: TypeAlias = tuple[str, bytes, bytes | None]
"""Scope, key, value; None deletes."""
