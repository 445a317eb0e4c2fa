"""Queues, as adapters use them."""

from mainstem.broker.publication import Put
from mainstem.broker.queues.delivery.consumers import Consumer
from mainstem.broker.queues.delivery.streams import StreamStart
from mainstem.broker.queues.limits import QueueLimits
from mainstem.broker.queues.publishing.outbox import TRANSACTION_BYTES_MAX, Outbox
from mainstem.broker.queues.publishing.outcome import HOLD, REFUSED, TAKEN
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.queues import Queues
from mainstem.coordination.dead_letters.deaths import Death, Origin, Reason, deaths_of, decode_origin
from mainstem.coordination.dead_letters.targets import DeadLetterTarget
from mainstem.coordination.queues.names import queue_name_of, topic_name_of
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy, read_retry, write_retry
from mainstem.coordination.subscriptions.selector import InvalidSelector, compile_expression, compile_tags
from mainstem.wire.messages.header_block import decode_headers, find_header, ttl_of
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import encode_headers

__all__ = [
    "HOLD",
    "REFUSED",
    "TAKEN",
    "TRANSACTION_BYTES_MAX",
    "Consumer",
    "DeadLetterTarget",
    "Death",
    "InvalidSelector",
    "Message",
    "Origin",
    "Outbox",
    "Put",
    "Queue",
    "QueueLimits",
    "QueueProperties",
    "Queues",
    "Reason",
    "RetryPolicy",
    "StreamStart",
    "compile_expression",
    "compile_tags",
    "deaths_of",
    "decode_headers",
    "decode_origin",
    "encode_headers",
    "find_header",
    "queue_name_of",
    "read_retry",
    "topic_name_of",
    "ttl_of",
    "write_retry",
]
