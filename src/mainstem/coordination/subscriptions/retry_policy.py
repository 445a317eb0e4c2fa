"""How long to wait before a failed message is tried again, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from mainstem.coordination.schedules.delay_levels import DELAY_LEVELS_MS

ROCKETMQ_RETRIES_MAX = 16
_ROCKETMQ_FIRST_LEVEL = 3
"""A first retry waits for level 3, 10 s; the sixteenth for level 18, 2 h."""

RetryKind: TypeAlias = Literal["fixed", "linear", "exponential", "rocketmq"]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One policy. What fails is tried again, and so is each retry that fails, up to `retries_max`."""

    kind: RetryKind = "fixed"
    delay_ms: int = 0
    """Before the first retry; ignored by `rocketmq`, whose delays are fixed."""
    step_ms: int = 0
    """`linear`: by how much each retry waits longer."""
    factor: float = 2.0
    """`exponential`: by how much each retry waits longer."""
    delay_ms_max: int = 7_200_000
    jitter: float = 0.0
    """`exponential`: how much of the delay, at most, is taken off at random: what failed together is not to return together."""
    retries_max: int = ROCKETMQ_RETRIES_MAX
    """Deliveries beside the first; what fails the last one is dead."""

    def __post_init__(self) -> None:
        """Raises ValueError, which decoders report as invalid input."""
        if min(self.delay_ms, self.step_ms, self.delay_ms_max) < 0:
            raise ValueError("a delay is not negative")
        if self.retries_max < 0:
            raise ValueError("retries_max is not negative")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter is between 0 and 1")
        if not 1 <= self.factor <= 100:
            raise ValueError("factor is between 1 and 100")

    def next_delay_ms(self, failures: int, random: Callable[[], float]) -> int | None:
        """The wait after a number of failures (at least 1); None: no more tries. `random` gives a number from 0 to 1."""
        assert failures >= 1, "nothing has failed"
        if failures > self.retries_max:
            return None
        if self.kind == "rocketmq":
            level = min(_ROCKETMQ_FIRST_LEVEL + failures - 1, len(DELAY_LEVELS_MS))
            return DELAY_LEVELS_MS[level - 1]
        if self.kind == "fixed":
            return min(self.delay_ms, self.delay_ms_max)
        if self.kind == "linear":
            return min(self.delay_ms + (failures - 1) * self.step_ms, self.delay_ms_max)
        try:
            delay = min(self.delay_ms * self.factor ** (failures - 1), self.delay_ms_max)
        except OverflowError:
            delay = self.delay_ms_max
        return int(delay * (1 - self.jitter * random()))


ROCKETMQ = RetryPolicy(kind="rocketmq")


def read_retry(text: str) -> RetryPolicy:
    """A policy in words: its kind, then what differs from the defaults, as `exponential delay_ms=1000 retries_max=5`.

    Raises ValueError.
    """
    kind, *words = text.split() or [""]
    changes: dict[str, str] = {"kind": kind}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name in changes or name not in RetryPolicy.__struct_fields__:
            raise ValueError(f"{word!r} is not part of a retry policy")
        changes[name] = value
    try:
        return msgspec.convert(changes, RetryPolicy, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def write_retry(policy: RetryPolicy) -> str:
    """The inverse."""
    plain = RetryPolicy(kind=policy.kind)
    names = [name for name in RetryPolicy.__struct_fields__ if name != "kind"]
    changes = [(name, getattr(policy, name)) for name in names if getattr(policy, name) != getattr(plain, name)]
    return " ".join([policy.kind, *(f"{name}={value}" for name, value in changes)])
