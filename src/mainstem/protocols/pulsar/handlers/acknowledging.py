"""FLOW, ACK and what gives messages back.

An identity without an index in a batch means the whole entry that has this offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mainstem.broker.queues import Message
from mainstem.broker.queues.queue import QueueLane
from mainstem.protocols.pulsar.codec.frames import Buffer, encode_command
from mainstem.protocols.pulsar.codec.schema import Kind
from mainstem.protocols.pulsar.errors import CommandRefused, MalformedFrame, ServerError, code_of
from mainstem.protocols.pulsar.handlers.calls import Handler, Refusal, Speaker
from mainstem.protocols.pulsar.handlers.consuming import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    TYPE_NAMES,
    PulsarConsumer,
    open_bits,
)
from mainstem.protocols.pulsar.mapping.messages import place_of_message, unit_of

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.parts import PulsarParts

CUMULATIVE = 1


class Acknowledging:
    """For all connections."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._settling = parts.broker.queues.settling
        self._outbox = parts.broker.queues.outbox

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {
            Kind.FLOW: self.flow,
            Kind.ACK: self.acknowledge,
            Kind.REDELIVER: self.redeliver,
            Kind.CONSUMER_STATS: self.stats,
        }

    def refusals(self) -> dict[str, Refusal]:
        """By the name of what was asked."""
        return {"Ack": refuse_ack, "ConsumerStats": _refuse_stats, "Flow": _nothing, "Redeliver": _nothing}

    def flow(self, connection: Speaker, said: Any) -> None:
        """The client takes more."""
        consumer = connection.consumers.get(said.consumer_id)
        if consumer is not None:
            consumer.add_permits(said.messagePermits)

    # Acknowledging

    def acknowledge(self, connection: Speaker, said: Any) -> None:
        """Messages are done with; answered, where that is asked, once it is durable."""
        consumer = connection.consumers.get(said.consumer_id)
        if consumer is None:
            if said.HasField("request_id"):
                connection.session.say(refuse_ack(said, ServerError.CONSUMER_NOT_FOUND, "Consumer not found"))
            return
        if not said.message_id:
            raise MalformedFrame("an acknowledgement of nothing")
        if said.txnid_most_bits or said.txnid_least_bits:
            raise CommandRefused(ServerError.TRANSACTION_NOT_FOUND, "no such transaction")
        if consumer.queue.lanes:
            lane = consumer.queue.lanes[0]
            if said.ack_type == CUMULATIVE:
                self._settle_up_to(consumer, lane, said.message_id[-1])
            else:
                self._settle(lane, said.message_id)
            consumer.wake()
        if said.HasField("request_id"):
            connection.session.owe()

            def done(_: object, error: BaseException | None) -> None:
                if error is None:
                    connection.say(Kind.ACK_RESPONSE, consumer_id=said.consumer_id, request_id=said.request_id)
                else:
                    connection.session.say(refuse_ack(said, code_of(error), str(error)))
                connection.session.settle()

            self._outbox.when_durable(done, None)

    def _settle(self, lane: QueueLane, identities: Iterable[Any]) -> None:
        held: list[Message] = []
        others: list[int] = []
        for identity in identities:
            if identity.ledgerId == lane.log:
                for offset in self.offsets(lane, identity):
                    message = lane.unsettled.get(offset)
                    if message is None:
                        others.append(offset)
                    else:
                        held.append(message)
        release(held)
        self._settling.settle(held)
        if others:
            self._settling.settle_offsets(lane, others)

    def offsets(self, lane: QueueLane, identity: Any) -> Iterable[int]:
        """What an identity means."""
        first = identity.entryId
        message = lane.unsettled.get(first)
        if message is None:
            message = self._any_of(lane, first, identity.batch_size)
        count = place_of_message(message).size if message is not None else identity.batch_size
        if not count:
            return (first,) if not (message is not None and identity.ack_set and open_bits(identity.ack_set)) else ()
        first = first if message is None else unit_of(message)[0]
        if identity.ack_set:
            bits = open_bits(identity.ack_set)
            return [first + index for index in range(count) if not bits >> index & 1]
        if identity.HasField("batch_index") and identity.batch_index >= 0:
            return (first + identity.batch_index,)
        return range(first, first + count)

    def _any_of(self, lane: QueueLane, first: int, count: int) -> Message | None:
        """A message of the entry that is held, where its first one is not."""
        near = (lane.unsettled.get(first + index) for index in range(1, min(max(count, 64), 4_096)))
        return next((one for one in near if one is not None and unit_of(one)[0] <= first), None)

    def _settle_up_to(self, consumer: PulsarConsumer, lane: QueueLane, identity: Any) -> None:
        if consumer.kind not in (EXCLUSIVE, FAILOVER):
            raise CommandRefused(ServerError.NOT_ALLOWED, "Cumulative acknowledgement is not for shared subscriptions")
        if identity.ledgerId < lane.log:
            return
        if identity.ledgerId > lane.log:
            raise CommandRefused(ServerError.NOT_ALLOWED, "the message is of no ledger of this topic")
        end = identity.entryId + 1
        message = lane.unsettled.get(identity.entryId)
        if message is not None:
            first, last = unit_of(message)
            end = last + 1
            if identity.ack_set:
                bits = open_bits(identity.ack_set)
                end = first + ((bits & -bits).bit_length() - 1 if bits else last - first + 1)
                if first == last and bits:
                    end = first
            elif identity.HasField("batch_index") and identity.batch_index >= 0:
                end = first + identity.batch_index + 1
        release(message for offset, message in lane.unsettled.items() if offset < end)
        self._settling.settle_below(lane, end)

    # Giving back

    def redeliver(self, connection: Speaker, said: Any) -> None:
        """Give messages out again: those that are named, or all that the consumer has."""
        consumer = connection.consumers.get(said.consumer_id)
        if consumer is None:
            return
        if said.HasField("consumer_epoch"):
            consumer.epoch = said.consumer_epoch
        is_shared = consumer.kind in (SHARED, KEY_SHARED)
        if not said.message_ids or not is_shared:
            held = consumer.holdings()
        else:
            lane = consumer.queue.lanes[0]
            offsets = {
                offset
                for identity in said.message_ids
                if identity.ledgerId == lane.log
                for offset in self.offsets(lane, identity)
            }
            found = (lane.unsettled.get(offset) for offset in sorted(offsets))
            held = [message for message in found if message is not None and message.holder is consumer]
        release(held)
        self._settling.requeue(held, failed=is_shared)
        consumer.wake()

    # Looking

    def stats(self, connection: Speaker, said: Any) -> None:
        """How a consumer does."""
        consumer = connection.consumer(said)
        connection.say(
            Kind.CONSUMER_STATS_RESPONSE,
            request_id=said.request_id,
            consumerName=consumer.name,
            availablePermits=max(consumer.permits, 0),
            unackedMessages=max(consumer.held, 0),
            blockedConsumerOnUnackedMsgs=consumer.room <= 0 < consumer.permits,
            address=connection.endpoints.peer,
            connectedSince=self._parts.shown_time(consumer.since_ms),
            type=TYPE_NAMES[consumer.kind],
            msgBacklog=consumer.queue.ready_count + consumer.queue.unsettled_count,
        )


def release(messages: Iterable[Message]) -> None:
    """Their consumers have them no more."""
    for message in messages:
        holder = message.holder
        if isinstance(holder, PulsarConsumer):
            holder.held -= 1
            message.holder = None


def refuse_ack(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    """The answer to an acknowledgement that has not worked."""
    if not said.HasField("request_id"):
        return []
    return encode_command(
        Kind.ACK_RESPONSE,
        consumer_id=said.consumer_id,
        request_id=said.request_id,
        error=code,
        message=reason,
        txnid_least_bits=said.txnid_least_bits,
        txnid_most_bits=said.txnid_most_bits,
    )


def _refuse_stats(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return encode_command(
        Kind.CONSUMER_STATS_RESPONSE, request_id=said.request_id, error_code=code, error_message=reason
    )


def _nothing(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return []
