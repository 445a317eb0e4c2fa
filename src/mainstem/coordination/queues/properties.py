"""What a queue promises: fixed when it is declared."""

from __future__ import annotations

import functools
from typing import Literal, TypeAlias

import msgspec

from mainstem.coordination.dead_letters.targets import DeadLetterTarget
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy

Kind: TypeAlias = Literal["classic", "quorum", "stream"]
Overflow: TypeAlias = Literal["drop-head", "reject-publish", "reject-publish-dlx", "back-pressure"]
Ordering: TypeAlias = Literal["shared", "key", "exclusive", "failover"]
"""Who may work at the same time: all; all, but one at a time on records of one key; one, others are refused; one, others
wait for their turn."""

PRIORITY_MAX = 255
DELIVERY_LIMIT_QUORUM = 20
"""What a quorum queue allows unless it was told otherwise, as in RabbitMQ 4."""


class QueueProperties(msgspec.Struct, frozen=True, omit_defaults=True):
    """All of it. None and 0 mean: no such limit."""

    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    kind: Kind = "classic"
    arguments: bytes = b""
    """What the adapter wants to have back, as declared; opaque here."""
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    """A queue that nobody used for so long goes."""
    length_max: int | None = None
    bytes_max: int | None = None
    overflow: Overflow = "drop-head"
    dead_letter: DeadLetterTarget | None = None
    priority_max: int = 0
    """How many levels there are above 0; each is a lane."""
    single_active: bool = False
    delivery_limit: int | None = None
    ordering: Ordering = "shared"
    retention_ms: int | None = None
    """How long acknowledged messages stay, so that the queue can be rewound. None: the broker's setting."""
    retention_bytes: int | None = None
    """How much of them stays at most. None: the broker's setting."""
    age_max_ms: int | None = None
    """Of a stream: how long records stay."""
    lease_ms: int | None = None
    """How long a consumer may work on a message before another gets it. None: as long as it stays attached."""
    retry: RetryPolicy | None = None
    hidden: bool = False
    """Not shown to clients that see topics: server-named ones, for example."""

    @property
    def deliveries_max(self) -> int | None:
        """How often a message may be given back before it is given up."""
        if self.delivery_limit is not None:
            return None if self.delivery_limit < 0 else self.delivery_limit
        return DELIVERY_LIMIT_QUORUM if self.kind == "quorum" else None

    @property
    def policy(self) -> DeliveryPolicy:
        """What it allows, as every subscription does."""
        return _policy(self.lease_ms, self.deliveries_max, self.retry, self.dead_letter)

    @property
    def lanes(self) -> int:
        """How many logs it needs."""
        return self.priority_max + 1

    @property
    def is_lasting(self) -> bool:
        """Whether it is there after a restart."""
        return self.durable and not self.exclusive


@functools.lru_cache(1_024)
def _policy(
    lease_ms: int | None, failures_max: int | None, retry: RetryPolicy | None, dead_letter: DeadLetterTarget | None
) -> DeliveryPolicy:
    """Queues of the same rules share it."""
    return DeliveryPolicy(lease_ms=lease_ms, failures_max=failures_max, retry=retry, dead_letter=dead_letter)


COMPARED = (
    "durable", "exclusive", "auto_delete", "kind", "message_ttl_ms", "expires_ms", "length_max", "bytes_max", "overflow",
    "dead_letter", "priority_max", "single_active", "delivery_limit", "ordering", "retention_ms", "retention_bytes",
    "age_max_ms", "lease_ms", "retry",
)  # fmt: skip
"""What must be equal when a queue is declared again, in the order in which a difference is told."""


def first_difference(wanted: QueueProperties, present: QueueProperties) -> tuple[str, object, object] | None:
    """The first property in which they differ, with both values."""
    for field in COMPARED:
        mine, theirs = getattr(wanted, field), getattr(present, field)
        if mine != theirs:
            return field, mine, theirs
    return None


encode_properties = msgspec.msgpack.Encoder().encode
decode_properties = msgspec.msgpack.Decoder(QueueProperties).decode
