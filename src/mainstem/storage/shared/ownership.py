"""A lease on a shard, kept by renewing it in time.

The catalog's clock decides when a lease has ended; the owner believes in its own one only to stop earlier: it counts from the
moment at which it *sent* its last renewal that was answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mainstem.model.errors import OwnershipLost
from mainstem.storage.runtime.runtime import Runtime, Timer
from mainstem.storage.shared.lanes import Lanes
from mainstem.storage.shared.ports import Catalog, Claim

log_output = logging.getLogger("mainstem.storage")

RENEWALS_PER_LEASE = 5
RENEWAL_SECONDS_MAX = 1.0
"""A renewal also asks whether the shard is to be handed over, and that must not take long."""


class LeasedOwnership:
    """The right to a shard, from `take` until it is released or lost. Engine's thread only."""

    def __init__(
        self, *, catalog: Catalog, runtime: Runtime, lanes: Lanes, shard: str, claim: Claim, lease_ms: int, sent: float
    ) -> None:
        self.term = claim.epoch
        self.shard = shard
        self._catalog = catalog
        self._runtime = runtime
        self._lanes = lanes
        self._lease_ms = lease_ms
        self._until = sent + lease_ms / 1000
        self._clock_offset_ms = claim.now_ms - int(sent * 1000)
        self._callbacks: list[Callable[[OwnershipLost], None]] = []
        self._lost: OwnershipLost | None = None
        self._released = False
        self.on_hand_over: Callable[[], None] = lambda: None
        """Called, perhaps more than once, when an operator wants another broker to own the shard."""
        self._pause = min(RENEWAL_SECONDS_MAX, lease_ms / 1000 / RENEWALS_PER_LEASE)
        self._renewal: Timer = runtime.call_later(self._pause, self._renew)
        self._deadline: Timer = runtime.call_later(self._until - runtime.monotonic(), self._watch)

    @property
    def is_over(self) -> bool:
        """Whether somebody else may own the shard by now."""
        return self._lost is not None or self._runtime.monotonic() >= self._until

    def catalog_ms(self) -> int:
        """The catalog's clock, as far as we know: after a time in which this machine slept it is behind, never ahead."""
        return self._clock_offset_ms + int(self._runtime.monotonic() * 1000)

    def on_lost(self, callback: Callable[[OwnershipLost], None]) -> None:
        """Call once, when it ends against our will."""
        self._callbacks.append(callback)

    def release(self, then: Callable[[], None]) -> None:
        """Let another broker take the shard at once."""
        self._stop()
        if self._lost is not None:
            then()
            return
        self._released = True
        self._lanes.renew(lambda: self._catalog.release(self.shard, self.term), lambda _, error: then())

    def forgo(self) -> None:
        """Renew it no more, and say nothing when it ends."""
        self._stop()
        self._released = True

    def lose(self, error: OwnershipLost) -> None:
        """Nothing may be shown or answered any more."""
        if self._lost is None and not self._released:
            self._lost = error
            self._stop()
            log_output.error("shard %s: %s", self.shard, error)
            for callback in self._callbacks:
                callback(error)

    def _stop(self) -> None:
        self._renewal.cancel()
        self._deadline.cancel()

    def _watch(self) -> None:
        """Look again when the lease would end."""
        if self._lost is not None or self._released:
            return
        left = self._until - self._runtime.monotonic()
        if left <= 0:
            self.lose(OwnershipLost(f"the lease of term {self.term} could not be renewed in time"))
            return
        self._deadline = self._runtime.call_later(left, self._watch)

    def _renew(self) -> None:
        if self._lost is not None or self._released:
            return
        sent = self._runtime.monotonic()

        def done(hands_over: bool | None, error: BaseException | None) -> None:
            if self._lost is not None or self._released:
                return
            if isinstance(error, OwnershipLost):
                self.lose(error)
                return
            if error is None:
                self._until = max(self._until, sent + self._lease_ms / 1000)
                if hands_over:
                    self.on_hand_over()
            else:
                log_output.warning("shard %s: the lease was not renewed: %s", self.shard, error)
            self._renewal = self._runtime.call_later(self._pause, self._renew)

        self._lanes.renew(lambda: self._catalog.renew(self.shard, self.term, self._lease_ms), done)
