"""Queues that a consumer has for itself, so that their order is kept. A lock ends with its client, or when it is not renewed."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.codec.remoting.documents import (
    LockWish,
    MessageQueue,
    decode_document,
    encode_document,
)
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership

LOCK_S = 60.0
LOCKS_MAX = 100_000
"""Of one group."""


class _Lock(NamedTuple):
    client_id: str
    until: float


class LockHandlers:
    """Of all groups."""

    def __init__(self, broker: Broker, membership: Membership) -> None:
        self._clock = broker.clock
        self._locks: dict[str, dict[tuple[str, int], _Lock]] = {}
        membership.on_leave.append(self._left)

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.LOCK_BATCH_MQ: self.lock, RequestCode.UNLOCK_BATCH_MQ: self.unlock}

    def lock(self, call: Call) -> None:
        """Answers those of the queues that the client has now."""
        wish = decode_document(bytes(call.command.body), LockWish)
        locks = self._locks.setdefault(wish.group, {})
        if len(locks) + len(wish.queues) > LOCKS_MAX:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"group {wish.group} has locked {LOCKS_MAX} queues")
        now = self._clock.monotonic()
        had: list[MessageQueue] = []
        for queue in wish.queues:
            place = (queue.topic, queue.queue)
            held = locks.get(place)
            if held is None or held.client_id == wish.client_id or held.until <= now:
                locks[place] = _Lock(wish.client_id, now + LOCK_S)
                had.append(queue)
        call.answer(body=encode_document({"lockOKMQSet": had}))

    def unlock(self, call: Call) -> None:
        """Others may have them."""
        wish = decode_document(bytes(call.command.body), LockWish)
        locks = self._locks.get(wish.group, {})
        for queue in wish.queues:
            place = (queue.topic, queue.queue)
            held = locks.get(place)
            if held is not None and held.client_id == wish.client_id:
                del locks[place]
        if not locks:
            self._locks.pop(wish.group, None)
        call.answer()

    def _left(self, group: str, client_id: str) -> None:
        locks = self._locks.get(group, {})
        for place in [place for place, held in locks.items() if held.client_id == client_id]:
            del locks[place]
        if not locks:
            self._locks.pop(group, None)
