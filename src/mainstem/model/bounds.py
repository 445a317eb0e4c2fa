"""Bounds of numbers that people set, for the types of settings."""

from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
