"""Which policy applies, and what holds with it."""

import pytest

from mainstem.coordination.administration.entries import Policy
from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.coordination.administration.policies import PolicySet, check_policy
from mainstem.coordination.queues.properties import DeadLetterTarget, QueueProperties
from mainstem.coordination.queues.rules import rules_of


def policy(name: str, pattern: str, definition: dict[str, object], **rest: object) -> Policy:
    made = Policy("default", name, pattern, definition, **rest)  # type: ignore[arg-type]
    check_policy(made)
    return made


def test_the_highest_priority_applies_then_the_first_name() -> None:
    found = PolicySet(
        [
            policy("b", "^a", {"max-length": 1}),
            policy("a", "^a", {"max-length": 2}),
            policy("high", "^ab", {"max-length": 3}, priority=5),
            policy("exchanges", "", {"alternate-exchange": "x"}, priority=9, apply_to="exchanges"),
            policy("quorum", "q", {"delivery-limit": 7}, apply_to="quorum_queues"),
        ]
    )
    assert found.definition("ab", "classic_queues") == {"max-length": 3}
    assert found.definition("ac", "classic_queues") == {"max-length": 2}
    assert found.definition("zq", "classic_queues") == {}
    assert found.definition("zq", "quorum_queues") == {"delivery-limit": 7}
    assert found.definition("zq", "exchanges") == {"alternate-exchange": "x"}


def test_an_operators_policy_limits() -> None:
    found = PolicySet(
        [
            policy("users", ".*", {"max-length": 10, "message-ttl": 500}),
            policy("theirs", ".*", {"max-length": 100, "message-ttl": 50, "expires": 9}, is_operators=True),
        ]
    )
    assert found.definition("q", "classic_queues") == {"max-length": 10, "message-ttl": 50, "expires": 9}


def test_what_was_declared_and_what_the_policy_says() -> None:
    declared = QueueProperties(message_ttl_ms=100, length_max=5, overflow="reject-publish")
    rules = rules_of(
        declared,
        {
            "message-ttl": 200,
            "max-length": 3,
            "max-length-bytes": 9,
            "overflow": "drop-head",
            "dead-letter-exchange": "dlx",
        },
    )
    assert (rules.message_ttl_ms, rules.length_max, rules.bytes_max, rules.overflow) == (100, 3, 9, "reject-publish")
    assert rules.dead_letter == DeadLetterTarget("dlx")
    kept = QueueProperties(dead_letter=DeadLetterTarget("mine", "key"), delivery_limit=3)
    rules = rules_of(kept, {"dead-letter-exchange": "dlx", "delivery-limit": 9, "max-age": "2D"})
    assert rules.dead_letter == kept.dead_letter
    assert rules.delivery_limit == 3
    assert rules.age_max_ms == 172_800_000
    assert rules_of(kept, {}) is kept


@pytest.mark.parametrize(
    ("pattern", "definition", "rest"),
    [
        ("(", {"max-length": 1}, {}),
        ("a" * 2000, {"max-length": 1}, {}),
        ("a", {}, {}),
        ("a", {"ha-mode": "all"}, {}),
        ("a", {"max-length": "1"}, {}),
        ("a", {"max-length": -1}, {}),
        ("a", {"max-length": True}, {}),
        ("a", {"expires": 0}, {}),
        ("a", {"overflow": "explode"}, {}),
        ("a", {"dead-letter-exchange": 1}, {}),
        ("a", {"dead-letter-routing-key": "k"}, {}),
        ("a", {"dead-letter-exchange": "x"}, {"is_operators": True}),
        ("a", {"max-age": "7 days"}, {}),
        ("a", {"max-length": 1}, {"apply_to": "topics"}),
    ],
)
def test_refused(pattern: str, definition: dict[str, object], rest: dict[str, object]) -> None:
    with pytest.raises(InvalidEntry):
        policy("name", pattern, definition, **rest)
