"""Policies: which one applies to a queue or an exchange, and what it comes to beside what was declared.

Of those whose pattern is found in the name, the one with the highest priority applies; of several with the same, the first
by name. An operator's policy applies besides, and limits: of two numbers the lower one holds; other values hold where the user's
policy says nothing. Between a policy and what a queue was declared with it is the same: of two limits the lower one holds, of
two other values the declared one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mainstem.coordination.administration.entries import (
    APPLY_TO,
    Policy,
    check_name,
    check_value,
)
from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.coordination.administration.patterns import check_pattern
from mainstem.coordination.subscriptions.retry_policy import read_retry

KIND_OF_QUEUE = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}


def _natural(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")


def _integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")


def _text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")


def _one_of(*choices: str) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in choices:
            raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")

    return check


def _age(name: str, value: object) -> None:
    if not isinstance(value, str) or age_ms(value) is None:
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}")


def _retry(name: str, value: object) -> None:
    try:
        read_retry(value if isinstance(value, str) else "")
    except ValueError as error:
        raise InvalidEntry(f"{value!r} is not a valid {name.replace('-', ' ')}: {error}") from None


_AGE = re.compile(r"([0-9]{1,9})([YMDhms])")
_AGES_MS = {"Y": 31_536_000_000, "M": 2_592_000_000, "D": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


def age_ms(text: str) -> int | None:
    """A length of time as streams have it: 7D, 12h."""
    found = _AGE.fullmatch(text)
    return None if found is None else int(found[1]) * _AGES_MS[found[2]]


DEFINITION_KEYS: Mapping[str, Callable[[str, object], None]] = {
    "message-ttl": _natural,
    "expires": _positive,
    "max-length": _natural,
    "max-length-bytes": _natural,
    "overflow": _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
    "dead-letter-exchange": _text,
    "dead-letter-routing-key": _text,
    "dead-letter-strategy": _one_of("at-most-once", "at-least-once"),
    "delivery-limit": _integer,
    "max-age": _age,
    "alternate-exchange": _text,
    "mainstem-retry": _retry,
    "mainstem-ordering": _one_of("shared", "key", "exclusive", "failover"),
    "mainstem-lease-ms": _positive,
}
"""What a policy can set. Whatever is not kept here is refused by name."""
OPERATOR_KEYS = frozenset(
    {"message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "delivery-limit"},
)


def check_policy(policy: Policy) -> None:
    """Whether such a policy can be. Raises InvalidEntry."""
    check_name(policy.namespace)
    check_name(policy.name)
    check_pattern(policy.pattern)
    if policy.apply_to not in APPLY_TO:
        raise InvalidEntry(f"{policy.apply_to!r} is not what a policy applies to")
    if not policy.definition:
        raise InvalidEntry("a policy defines something")
    check_value(dict(policy.definition))
    for name, value in policy.definition.items():
        check = DEFINITION_KEYS.get(name)
        if check is None or (policy.is_operators and name not in OPERATOR_KEYS):
            raise InvalidEntry(f"{name!r} is not recognised")
        check(name, value)
    if "dead-letter-routing-key" in policy.definition and "dead-letter-exchange" not in policy.definition:
        raise InvalidEntry("dead-letter-routing-key needs dead-letter-exchange")


class PolicySet:
    """The policies of one namespace, ready for use."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        ordered = sorted(policies, key=lambda policy: (-policy.priority, policy.name))
        self._policies = [(policy, re.compile(policy.pattern)) for policy in ordered]

    def applying(self, name: str, what: str, *, is_operators: bool) -> Policy | None:
        """The one that applies. `what` is `exchanges` or a kind of queues."""
        for policy, pattern in self._policies:
            if (
                policy.is_operators is is_operators
                and _applies(policy.apply_to, what)
                and pattern.search(name) is not None
            ):
                return policy
        return None

    def definition(self, name: str, what: str) -> dict[str, Any]:
        """What holds for a queue or an exchange: the user's policy and the operator's together."""
        users = self.applying(name, what, is_operators=False)
        operators = self.applying(name, what, is_operators=True)
        merged = {} if users is None else dict(users.definition)
        if operators is not None:
            for key, value in operators.definition.items():
                present = merged.get(key)
                if present is None:
                    merged[key] = value
                elif isinstance(value, int) and isinstance(present, int):
                    merged[key] = min(value, present)
        return merged


def _applies(apply_to: str, what: str) -> bool:
    if apply_to == "all":
        return True
    if apply_to == "queues":
        return what != "exchanges"
    return apply_to == what
