"""BEGIN, COMMIT, ABORT: what is sent and acknowledged in a transaction counts with COMMIT, all of it in one commit of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.queues import TRANSACTION_BYTES_MAX, Message
from mainstem.model.errors import CommitTooLarge, StorageFull
from mainstem.protocols.stomp.codec.frames import Head
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.handlers import acknowledging, publishing

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection
    from mainstem.protocols.stomp.handlers.publishing import Plan
    from mainstem.protocols.stomp.handlers.subscription import Subscription


class Transaction:
    """What one of them has gathered."""

    def __init__(self) -> None:
        self.published: list[tuple[Plan, bytes]] = []
        self.verdicts: list[tuple[str, Head]] = []
        self.bytes = 0

    def publish(self, connection: StompConnection, plan: Plan, body: bytes) -> None:
        """A SEND. Raises StompError."""
        self._count(connection, len(body) + len(plan.headers))
        self.published.append((plan, body))

    def decide(self, connection: StompConnection, head: Head, verdict: str) -> None:
        """An ACK or NACK. Raises StompError."""
        self._count(connection, 0)
        self.verdicts.append((verdict, head))

    def _count(self, connection: StompConnection, size: int) -> None:
        limit = connection.session.settings.transaction_frames_max
        if len(self.published) + len(self.verdicts) >= limit:
            raise StompError("Transaction too large", f"Too many actions in transaction (limit {limit})")
        self.bytes += size
        if connection.transactions.bytes > TRANSACTION_BYTES_MAX:
            limit = TRANSACTION_BYTES_MAX
            raise StompError("Transaction too large", f"open transactions publish more than {limit} bytes")


class Transactions:
    """Of one connection, by name."""

    def __init__(self) -> None:
        self._open: dict[str, Transaction] = {}

    @property
    def bytes(self) -> int:
        """What all that are open will publish."""
        return sum(transaction.bytes for transaction in self._open.values())

    def begin(self, name: str, limit: int) -> None:
        """A new one. Raises StompError."""
        if name in self._open:
            raise StompError("Bad transaction", f"Transaction has begun already: {name}\n")
        if len(self._open) >= limit:
            raise StompError("Transaction limit exceeded", f"Too many concurrent transactions (limit {limit})")
        self._open[name] = Transaction()

    def get(self, name: str) -> Transaction:
        """One that has begun. Raises StompError."""
        found = self._open.get(name)
        if found is None:
            raise StompError("Bad transaction", f"Invalid transaction identifier: {name}\n")
        return found

    def end(self, name: str) -> Transaction:
        """The same; it is no more. Raises StompError."""
        found = self.get(name)
        del self._open[name]
        return found

    def forget_all(self) -> None:
        """The connection ends: nothing of them counts."""
        self._open.clear()


def _name(head: Head) -> str:
    name = head.headers.get("transaction")
    if name is None:
        raise StompError("Missing transaction", f"{head.command} must include a 'transaction' header\n")
    return name


def begin(connection: StompConnection, head: Head, body: bytes) -> None:
    """BEGIN."""
    connection.transactions.begin(_name(head), connection.session.settings.transactions_max)


def abort(connection: StompConnection, head: Head, body: bytes) -> None:
    """ABORT: deliveries wait for their acknowledgement again."""
    connection.transactions.end(_name(head))


async def commit(connection: StompConnection, head: Head, body: bytes) -> None:
    """COMMIT."""
    transaction = connection.transactions.end(_name(head))
    decided: list[tuple[str, Subscription, list[Message]]] = []
    try:
        await _commit(connection, transaction, decided)
    except BaseException:
        # Those that are settled already are passed over.
        connection.settling.requeue([message for _, _, messages in decided for message in messages], failed=False)
        raise


async def _commit(
    connection: StompConnection, transaction: Transaction, decided: list[tuple[str, Subscription, list[Message]]]
) -> None:
    covered: dict[str, int] = {}
    for verdict, named in transaction.verdicts:
        tag, number = acknowledging.parse_delivery(connection, named)
        if number <= covered.get(tag, 0):
            continue  # An acknowledgement of this transaction has covered it.
        subscription, messages = acknowledging.take(connection, named)
        decided.append((verdict, subscription, messages))
        if len(messages) > 1:
            covered[tag] = number

    def settle() -> None:
        for plan, content in transaction.published:
            if plan.delayed:
                publishing.delay(connection, plan, content)
        for verdict, subscription, messages in decided:
            acknowledging.carry_out(connection, subscription, verdict, messages)
        connection.flush_settled()

    puts = [publishing.put_of(plan, content) for plan, content in transaction.published if plan.queues]
    try:
        refused = await connection.outbox.commit_transaction(puts, settle)
    except (CommitTooLarge, StorageFull) as error:
        raise StompError("resource_error", f"{error}") from None
    if refused:
        raise StompError("Message rejected", "a queue is full and refuses messages of the transaction\n")


FRAMES = {"BEGIN": begin, "COMMIT": commit, "ABORT": abort}
