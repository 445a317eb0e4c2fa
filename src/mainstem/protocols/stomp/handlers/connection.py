"""One connection: who it is, where it works, what it owns; its frames to their handlers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.broker.dialect import NotInDialect
from mainstem.broker.queues import Message, Queue
from mainstem.broker.queues.delivery.times import DeliveryTimes
from mainstem.broker.routes import Router
from mainstem.broker.users.callers import Caller
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import MainstemError
from mainstem.protocols.stomp.codec.frames import Head, encode_frame
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.handlers import acknowledging, login, publishing, subscribing, transactions
from mainstem.protocols.stomp.handlers.publishing import Planner
from mainstem.protocols.stomp.handlers.transactions import Transactions
from mainstem.protocols.stomp.session.machine import OUTPUT_BYTES_MAX, StompSession

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.node import Node
    from mainstem.protocols.stomp.handlers.subscription import Subscription

log = logging.getLogger(__name__)

Handler: TypeAlias = "Callable[[StompConnection, Head, bytes], Coroutine[Any, Any, None] | None]"

PASS_SECONDS = 0.004
"""How long one connection may keep the loop; then others have their turn."""
HANDLERS: dict[str, Handler] = {
    **publishing.FRAMES,
    **acknowledging.FRAMES,
    **subscribing.FRAMES,
    **transactions.FRAMES,
}


class StompConnection:
    """The broker's side of a session."""

    def __init__(self, node: Node, session: StompSession, endpoints: Endpoints) -> None:
        self.node = node
        self.session = session
        self.endpoints = endpoints
        self.queues = node.broker.queues
        self.outbox = node.broker.queues.outbox
        self.settling = node.broker.queues.settling
        self.caller: Caller
        """Who it is, from CONNECT on."""
        self.user = self.host = self.namespace = ""
        self.router: Router
        self.session_id = node.new_name("session-")
        self.owed = 0
        self.planner = Planner()
        self.transactions = Transactions()
        self.subscriptions: dict[str, Subscription] = {}
        """By consumer tag."""
        self.ended: list[Subscription] = []
        """Those without a queue, while deliveries of theirs wait for their acknowledgement."""
        self.reply_queues: dict[str, Queue] = {}
        """By the id of a /temp-queue."""
        self.owned: list[Queue] = []
        """Queues that nobody else may use, and that end with it."""
        self.next_tag = 1
        self.times = DeliveryTimes()
        self.now = 0.0
        self.has_room = True
        """Whether deliveries may be sent."""
        self.is_lost = False
        self._settled: list[Message] = []
        self._relieved: dict[Subscription, None] = {}
        self._receipts: list[str] = []
        self._published_bytes = 0
        self._pass_ends = 0.0
        self._rest: tuple[Head, bytes] | None = None
        self._is_waiting = False
        self._awaited: set[Queue] = set()
        self._is_leaving = False

    # Coming

    @property
    def is_in_use(self) -> bool:
        """Whether the client is logged in."""
        return bool(self.user) and not self.is_lost

    def log_in(self, head: Head | None) -> None:
        """CONNECT; None: the default user. Raises StompError."""
        login.log_in(self, head)

    def enter(self, caller: Caller, host: str, namespace: str) -> None:
        """It is let in there."""
        self.caller, self.host, self.namespace = caller, host, namespace
        self.user = caller.name
        caller.namespace = namespace
        caller.hold(self._force_closed)
        self.router = self.node.broker.routes.of(namespace)
        peer = self.session.peer
        peer.introduce("STOMP client")
        peer.user, peer.namespace = caller.name, namespace

    def _force_closed(self, reason: str) -> None:
        self.session.fail(StompError("connection_forced", reason))

    # Frames

    def frame_received(self, head: Head, body: bytes) -> None:
        """Deal with one frame; what takes longer holds the session until it is done. Raises StompError."""
        handler = HANDLERS.get(head.command)
        if handler is None:
            if head.command == "DISCONNECT":
                self._disconnect(head)
                return
            self.fail(StompError("Bad command", f'Could not interpret command "{head.command}"\n'), head)
            return
        self.node.count(head.command)
        try:
            work = handler(self, head, body)
        except StompError as error:
            self.fail(error, head)
            return
        except NotInDialect as refused:
            self.fail(StompError("precondition_failed", str(refused)), head)
            return
        if inspect.iscoroutine(work):
            self.session.hold()
            self.owed += 1
            self.node.spawn(self._finish(head, work))
        else:
            self.acknowledge_frame(head)

    async def _finish(self, head: Head, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StompError as error:
            self.fail(error, head)
        except NotInDialect as refused:
            self.fail(StompError("precondition_failed", str(refused)), head)
        except MainstemError as error:
            self.fail(StompError("internal_error", str(error)), head)
        except Exception:
            # Ours, met by this frame: it costs its connection, not the broker.
            log.exception("%s failed; its connection is closed", head.command)
            self.fail(StompError("Processing error", "Processing error"), head)
        else:
            self.acknowledge_frame(head)
        finally:
            self.owed -= 1
            self.pass_ended()
            self.session.release()

    def fail(self, error: StompError, head: Head) -> None:
        """This frame was wrong."""
        self.session.fail(error, head.headers.get("receipt"))

    def acknowledge_frame(self, head: Head) -> None:
        """A RECEIPT, once all that this frame did is durable."""
        receipt = head.headers.get("receipt")
        if receipt is not None and self._rest is None:
            self._receipts.append(receipt)

    def _disconnect(self, head: Head) -> None:
        """End everything; the receipt says that it is durable, the owned queues included."""
        self.node.count(head.command)
        self._is_leaving = True
        self._end_subscriptions()

        async def finish() -> None:
            await self._delete_owned()
            self.acknowledge_frame(head)
            self.pass_ended()
            self.owed -= 1
            self.session.close()

        self.owed += 1
        self.session.hold()
        self.node.spawn(self._leave(finish()))

    async def _leave(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self.session.release()

    # Flow

    @property
    def is_to_stop(self) -> bool:
        """Whether the rest of what has come is left for later."""
        if self._is_waiting:
            return True
        now = self.node.broker.clock.monotonic()
        if not self._pass_ends:
            self._pass_ends = now + PASS_SECONDS
            return False
        return now >= self._pass_ends

    def leave_for_later(self, head: Head, body: bytes) -> None:
        """Keep a frame until there is room for it."""
        assert self._rest is None
        self._rest = head, body

    @property
    def has_rest(self) -> bool:
        """Whether a frame that was read waits."""
        return self._rest is not None

    def take_rest(self) -> None:
        """Deal with it. Raises StompError."""
        rest, self._rest = self._rest, None
        if rest is not None:
            self.frame_received(*rest)

    def stop_publishing(self) -> None:
        """The broker is going: a full disk is not waited for."""
        self._rest = None
        self._release()

    def published(self, size: int) -> None:
        """Count published bytes, which are on their way to the disk."""
        self._published_bytes += size

    def settle(self, subscription: Subscription, messages: list[Message]) -> None:
        """They are done with: settled at the end of the pass, in one go."""
        self._settled += messages
        self._relieved[subscription] = None

    def relieve(self, subscription: Subscription) -> None:
        """It may have more, from the end of the pass on."""
        self._relieved[subscription] = None

    def flush_settled(self) -> None:
        """Settle what was acknowledged so far."""
        if self._settled:
            settled, self._settled = self._settled, []
            self.settling.settle(settled)

    def pass_ended(self) -> None:
        """All that had come was dealt with: settle and answer in one go."""
        self._pass_ends = 0.0
        self.flush_settled()
        if self._relieved:
            relieved, self._relieved = self._relieved, {}
            for subscription in relieved:
                subscription.adjust()
                subscription.wake()
        size, receipts = self._published_bytes, self._receipts
        if size or receipts:
            self._published_bytes, self._receipts = 0, []
            self.session.in_flight_bytes += size
            self.owed += 1
            self.outbox.when_durable(self._stored, (size, receipts))

    def _stored(self, told: tuple[int, list[str]], error: BaseException | None) -> None:
        size, receipts = told
        self.owed -= 1
        if error is None:
            if receipts and not self.is_lost:
                version = self.session.version
                frames = [encode_frame("RECEIPT", [("receipt-id", receipt)], version=version) for receipt in receipts]
                self.session.say(b"".join(frames))
        elif not self.is_lost:
            self.session.fail(
                StompError("resource_error", f"frames could not be stored: {error}"), receipts[0] if receipts else None
            )
        self.session.settled(size)

    def wait_for_relief(self, queues: Iterable[Queue]) -> None:
        """The broker cannot take more, or these queues cannot: do not read until they can."""
        self._awaited.update(queues)
        if not self._is_waiting:
            self._is_waiting = True
            self.session.hold()
            self.outbox.when_relieved(self._release, self._awaited)

    def _release(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._awaited = set()
            self.session.release()

    # Deliveries

    def output_paused(self) -> None:
        """Deliver nothing more."""
        self.has_room = False
        for subscription in self.subscriptions.values():
            subscription.adjust()

    def said(self) -> None:
        """Something was delivered: when the output is full, nothing more is."""
        if self.has_room and self.session.output_bytes >= OUTPUT_BYTES_MAX:
            self.output_paused()

    def output_taken(self) -> None:
        """There is room again."""
        self.has_room = True
        for subscription in list(self.subscriptions.values()):
            if not subscription.room:
                subscription.adjust()
                subscription.wake()
            else:
                subscription.adjust()

    def time_passed(self, now: float) -> None:
        """Close the connection when a delivery was not acknowledged in time."""
        self.now = now
        timeout_ms = self.session.settings.consumer_timeout_ms
        oldest = min((one.oldest for one in (*self.subscriptions.values(), *self.ended) if one.oldest), default=0)
        if self.times.waiting(oldest, now) * 1_000 > timeout_ms > 0:
            self.session.fail(
                StompError("precondition_failed", f"delivery acknowledgement timed out. Timeout value: {timeout_ms} ms")
            )

    # Going

    def lost(self) -> None:
        """The peer is gone."""
        if self.is_lost:
            return
        self.is_lost = True
        self._rest = None
        if self.user:
            self.caller.leave()
        if not self._is_leaving:
            self._end_subscriptions()
        if self.owned:
            self.node.spawn(self._delete_owned())

    def _end_subscriptions(self) -> None:
        self.flush_settled()
        self.transactions.forget_all()
        subscriptions = [*self.subscriptions.values(), *self.ended]
        self.subscriptions, self.ended = {}, []
        for subscription in subscriptions:
            subscription.queue.detach(subscription)
            given = subscription.take_all()
            if given:
                self.settling.requeue(given, failed=True, error="its connection ended")

    async def _delete_owned(self) -> None:
        """Let the queues go that end with the connection."""
        owned, self.owned = self.owned, []
        for queue in owned:
            if not queue.is_gone:
                try:
                    await self.queues.delete(queue)
                except MainstemError as error:
                    log.warning("queue %s of a connection that ended stays: %s", queue.name, error)
