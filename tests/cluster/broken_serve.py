"""`mainstem serve` with one rule broken, for negative controls: the chaos run must notice. BROKEN names the rule."""

import os
import sys
from typing import Any

from mainstem.cli.app import main

RULES = ("answer before it is shipped", "append without the epoch")


def answer_first() -> None:
    from mainstem.storage.shared.shipped_log import ShippedLog

    ship = ShippedLog.ship

    def early(self: Any, sequence: int, generation: int, position: int, parts: Any, done: Any) -> None:
        kept = [bytes(part) for part in parts]
        # Answered now; shipped a little later, as by a program that trusts its memory.
        self._runtime.call_later(0.5, lambda: ship(self, sequence, generation, position, kept, lambda _, error: None))
        self._runtime.call_soon(lambda: done(None, None))

    ShippedLog.ship = early  # type: ignore[method-assign]


def append_unfenced() -> None:
    from mainstem.storage.shared import ownership, postgresql

    fence = "where shard = %(shard)s and epoch = %(epoch)s for share"
    assert fence in postgresql._APPEND
    postgresql._APPEND = (
        postgresql._APPEND.replace(fence, "where shard = %(shard)s")
        .replace("groups.epoch = excluded.epoch", "true")
        .replace("replays = groups.replays + 1", "data = excluded.data, key = excluded.key, place = excluded.place")
    )
    # It neither looks at its clock: only the fence is left to stop it.
    ownership.LeasedOwnership.is_over = property(lambda self: False)  # type: ignore[assignment,method-assign]
    ownership.LeasedOwnership._watch = lambda self: None  # type: ignore[method-assign]
    ownership.LeasedOwnership._renew = lambda self: None  # type: ignore[method-assign]


if __name__ == "__main__":
    {RULES[0]: answer_first, RULES[1]: append_unfenced}[os.environ["BROKEN"]]()
    sys.exit(main())
