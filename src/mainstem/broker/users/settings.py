"""What can be set for users."""

from __future__ import annotations

from typing import Annotated

import msgspec

Iterations = Annotated[int, msgspec.Meta(ge=4_096, le=16_384)]


class UserSettings(msgspec.Struct, frozen=True, kw_only=True):
    """For users of all protocols."""

    scram_iterations: Iterations = 16_384
    """How much work a password is for who logs in, and for who has stolen the log and guesses."""
