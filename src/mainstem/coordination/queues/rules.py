"""What holds for a queue: what it was declared with, and the policies that apply to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.coordination.administration.policies import age_ms
from mainstem.coordination.dead_letters.targets import DeadLetterTarget
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.coordination.subscriptions.retry_policy import read_retry

_LIMITS = {
    "message-ttl": "message_ttl_ms",
    "expires": "expires_ms",
    "max-length": "length_max",
    "max-length-bytes": "bytes_max",
    "mainstem-lease-ms": "lease_ms",
}


def rules_of(properties: QueueProperties, definition: Mapping[str, Any]) -> QueueProperties:
    """Of two limits the lower one holds, of other values the one that was declared."""
    if not definition:
        return properties
    changes: dict[str, Any] = {}
    for key, field in _LIMITS.items():
        if key in definition:
            declared = getattr(properties, field)
            changes[field] = definition[key] if declared is None else min(declared, definition[key])
    limit = definition.get("delivery-limit")
    if limit is not None:
        declared = properties.delivery_limit
        # Below 0 means: no limit.
        changes["delivery_limit"] = (
            limit if declared is None or declared < 0 else min(limit, declared) if limit >= 0 else declared
        )
    if "overflow" in definition and properties.overflow == "drop-head":
        changes["overflow"] = definition["overflow"]
    if "mainstem-ordering" in definition and properties.ordering == "shared":
        changes["ordering"] = definition["mainstem-ordering"]
    if "mainstem-retry" in definition and properties.retry is None:
        changes["retry"] = read_retry(definition["mainstem-retry"])
    if "max-age" in definition:
        age = age_ms(definition["max-age"])
        if age is not None:
            changes["age_max_ms"] = age if properties.age_max_ms is None else min(age, properties.age_max_ms)
    if "dead-letter-exchange" in definition and properties.dead_letter is None:
        changes["dead_letter"] = DeadLetterTarget(
            definition["dead-letter-exchange"],
            definition.get("dead-letter-routing-key"),
            definition.get("dead-letter-strategy", "at-most-once"),
        )
    return msgspec.structs.replace(properties, **changes)
