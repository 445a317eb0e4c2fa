"""One log, as the engine holds it in memory: small, because there may be a hundred thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.storage.contract import LogConfig, LogEnd
from mainstem.storage.sequencer.engine_scopes import LogEntry
from mainstem.storage.sequencer.transactions import Transactions

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813

if TYPE_CHECKING:
    from mainstem.storage.sequencer.log_tail import Arrivals, LogTail
    from mainstem.storage.sequencer.producers import ProducerTable
    from mainstem.storage.sequencer.watches import WatchHandle

FLUSH_OS, FLUSH_INTERVAL, FLUSH_SYNC = 0, 1, 2
FLUSH_RANKS = {"os": FLUSH_OS, "interval": FLUSH_INTERVAL, "sync": FLUSH_SYNC}


class LogState:
    """Sequenced state decides, visible state answers: what is visible has become durable.

    start, floor, next, open, producers are sequenced. visible_start, end and transactions are visible.
    """

    __slots__ = (
        "_arrivals",
        "_loose",
        "_newest",
        "batch_bytes_max",
        "bytes",
        "config",
        "end",
        "expiry_ms",
        "floor",
        "log",
        "next",
        "open",
        "own_tail",
        "plain_bytes_max",
        "producers",
        "rank",
        "start",
        "transactions",
        "visible_start",
        "watchers",
    )

    if TYPE_CHECKING:
        # Only where it is compiled.
        _arrivals: Arrivals | None
        _loose: int
        _newest: int

    def __init__(
        self, log: int, config: LogConfig, default_rank: int, copy_bytes_max: int, start: int = 0, floor: int = 0
    ) -> None:
        self.log = log
        self.start = self.visible_start = start
        self.floor = floor
        self.next = self.end = start
        self.bytes = 0
        self.open: dict[int, int] | None = None
        self.producers: ProducerTable | None = None
        self.transactions: Transactions | None = None
        self.watchers: list[WatchHandle] | None = None
        self.own_tail: LogTail | None = None
        """What `tail` gives, but for what is only among the arrivals."""
        if cython.compiled:
            self._loose = 0
            self._newest = -1
        self.configure(config, default_rank, copy_bytes_max)

    def configure(self, config: LogConfig, default_rank: int, copy_bytes_max: int) -> None:
        """Take a configuration on."""
        self.config = config
        self.expiry_ms = 0
        """Nothing of it expires by age before this time."""
        self.batch_bytes_max = config.batch_bytes_max
        self.plain_bytes_max = -1 if config.compact else min(copy_bytes_max, config.batch_bytes_max)
        """Up to here a batch can be taken without a closer look."""
        self.rank = default_rank if config.flush is None else FLUSH_RANKS[config.flush]

    @property
    def tail(self) -> LogTail | None:
        """Its batches that are not merged yet, if there are any."""
        if cython.compiled and self._loose:
            self._gather()
        return self.own_tail

    @tail.setter
    def tail(self, tail: LogTail | None) -> None:
        if cython.compiled:
            self._loose = 0
            self._newest = -1
        self.own_tail = tail

    def _gather(self) -> None:
        """Have what came since the last time in its own tail."""
        assert self._arrivals is not None
        self.own_tail = self._arrivals.gather(self._newest, self.own_tail)
        self._loose = 0
        self._newest = -1

    @property
    def stable(self) -> int:
        """The last stable offset, of what is visible."""
        transactions = self.transactions
        return self.end if transactions is None else max(self.visible_start, transactions.stable(self.end))

    @property
    def ends(self) -> LogEnd:
        """How far it can be read."""
        return LogEnd(self.end, self.stable)

    @property
    def entry(self) -> LogEntry:
        """What is stored of it as state."""
        return LogEntry(self.config, self.start, self.floor)

    def visible_transactions(self) -> Transactions:
        """Its transactions; made when first needed."""
        if self.transactions is None:
            self.transactions = Transactions()
        return self.transactions
