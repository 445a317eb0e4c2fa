"""The methods of class tx: what is published and acknowledged counts with tx.commit, all of it in one commit of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.protocols.amqp.codec.methods import Method
from mainstem.protocols.amqp.errors import precondition_failed
from mainstem.protocols.amqp.handlers.publish.plans import Plan
from mainstem.protocols.amqp.handlers.publish.publishing import puts_of

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel


def select(channel: Channel, method: Method) -> None:
    """tx.select."""
    if channel.publisher.is_confirming:
        precondition_failed("cannot switch from confirm to tx mode")
    if channel.verdicts is None:
        _begin(channel)
    channel.reply("tx.select-ok")


def _begin(channel: Channel) -> None:
    channel.verdicts = []
    channel.publisher.transaction = []
    channel.publisher.transaction_bytes = 0


async def commit(channel: Channel, method: Method) -> None:
    """tx.commit."""
    verdicts, published = channel.verdicts, channel.publisher.transaction
    if verdicts is None or published is None:
        precondition_failed("channel is not transactional")
    _begin(channel)
    puts = puts_of(published)

    def settle() -> None:
        for plan, body in published:
            _publish_elsewhere(channel, plan, body)
        for verdict, _, messages in verdicts:
            channel.carry_out(verdict, messages)
        channel.connection.pass_ended()

    refused = await channel.connection.outbox.commit_transaction(puts, settle)
    if refused:
        precondition_failed("partial tx completion")
    channel.reply("tx.commit-ok")


def _publish_elsewhere(channel: Channel, plan: Plan, body: bytes) -> None:
    """What does not go to queues: direct replies, delays, and what comes back."""
    if plan.reply is not None:
        plan.reply.deliver_reply(plan, body)
    elif plan.delayed:
        channel.publisher.delay(plan, body)
    elif not plan.queues and plan.mandatory:
        channel.publisher.give_back(plan, body)


def rollback(channel: Channel, method: Method) -> None:
    """tx.rollback: what was acknowledged is to be acknowledged again."""
    verdicts = channel.verdicts
    if verdicts is None:
        precondition_failed("channel is not transactional")
    for _, tags, messages in verdicts:
        channel.unacked.restore(zip(tags, messages, strict=True))
    _begin(channel)
    channel.reply("tx.rollback-ok")


METHODS = {"tx.select": select, "tx.commit": commit, "tx.rollback": rollback}
