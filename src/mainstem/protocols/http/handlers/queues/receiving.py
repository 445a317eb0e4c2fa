"""POST /v1/queues/{name}/receive and /settle: messages for a time, and what became of them."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.queues import Queue
from mainstem.broker.subscriptions.pulling import PullRequest
from mainstem.broker.subscriptions.receipts import Rejection, Renewal, Retry
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.queue_documents import QueuePath, QueueQuery
from mainstem.protocols.http.mapping.receipt_documents import (
    Received,
    ReceivedMessage,
    ReceiveWish,
    SettledDocument,
    SettleWish,
    describe_receipt,
)

OK = 200
QUEUE = "/v1/queues/{name}"
RECEIVE_BYTES_MAX = 4 << 20
"""Of one request, but for a single message that is larger."""


class ReceivingHandlers:
    """Work with messages of queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._receipts = broker.receipts

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownQueue,)
        return [
            Route("POST", QUEUE + "/receive", self.receive_messages, {OK: Received}, steps=QueuePath, query=QueueQuery,
                  content=ReceiveWish,
                  refusals=(*unknown, errors.UnsuitableSource, errors.QueueBusy, errors.Overloaded)),
            Route("POST", QUEUE + "/settle", self.settle_messages, {OK: SettledDocument}, steps=QueuePath,
                  query=QueueQuery, content=SettleWish,
                  refusals=(*unknown, errors.StorageFull, errors.Overloaded, errors.Unavailable)),
        ]  # fmt: skip

    def _queue(self, call: Call) -> Queue:
        queue = self._broker.queues.find(call.query.namespace, call.path.name)
        if queue is None:
            raise errors.UnknownQueue(f"no queue {call.path.name} in {call.query.namespace}")
        return queue

    async def receive_messages(self, call: Call) -> Received:
        """Take messages for a time: each is given to nobody else until its lease ends."""
        wish: ReceiveWish = call.content
        request = PullRequest(wish.max, RECEIVE_BYTES_MAX, wait_s=wish.wait_ms / 1000)
        receipts = await self._receipts.receive(self._queue(call), request, wish.lease_ms)
        pace = Pace(self._broker.clock)
        messages: list[ReceivedMessage] = []
        for receipt in receipts:
            messages.append(describe_receipt(receipt, self._broker.envelopes.mark_names))
            await pace.step()
        return Received(messages)

    async def settle_messages(self, call: Call) -> SettledDocument:
        """Say what became of messages: accepted, to be tried again, rejected, or worked on for longer. Durable."""
        wish: SettleWish = call.content
        settled = await self._receipts.settle(
            self._queue(call),
            accept=wish.accept,
            retry=[Retry(one.receipt, one.after_ms, one.error) for one in wish.retry],
            reject=[Rejection(one.receipt, one.reason) for one in wish.reject],
            renew=[Renewal(one.receipt, one.lease_ms) for one in wish.renew],
        )
        return SettledDocument(settled.done, settled.unknown)
