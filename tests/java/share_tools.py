"""Share groups by Kafka's Java share consumer and its tools. `make test-java` runs this module."""

from pathlib import Path

import pytest

from tests.java.distribution import Distribution
from tests.java.tools import CONFIGS, NUMBERS, TOOLS, Tools

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
CONSOLE_SHARE_CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"
RENEWAL = Path(__file__).parent / "programs" / "Renewal.java"


def begin_at_the_start(tools: Tools, group: str, *configs: str) -> None:
    said = ",".join(("share.auto.offset.reset=earliest", *configs))
    tools.run(CONFIGS, "--entity-type", "groups", "--entity-name", group, "--alter", "--add-config", said)


def row(tools: Tools, group: str) -> list[str]:
    """GROUP TOPIC PARTITION START-OFFSET LAG."""
    lines = [line.split() for line in tools.run(SHARE_GROUPS, "--describe", "--group", group).splitlines()]
    head = next(line for line in lines if line[:1] == ["GROUP"])
    (found,) = (dict(zip(head, line, strict=False)) for line in lines if line[:1] == [group])
    return [found[name] for name in ("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG")]


def test_share_groups(tools: Tools, topic: str) -> None:
    tools.fill(topic)
    group = f"{topic}-group"
    begin_at_the_start(tools, group)
    options = ("--topic", topic, "--group", group, "--timeout-ms", "20000")
    assert tools.run(CONSOLE_SHARE_CONSUMER, *options, "--max-messages", "20").splitlines() == NUMBERS
    assert group in tools.run(SHARE_GROUPS, "--list").split()
    assert row(tools, group) == [group, topic, "0", "20", "0"]
    assert "Empty" in tools.run(SHARE_GROUPS, "--describe", "--group", group, "--state")
    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    tools.run(SHARE_GROUPS, *reset)
    assert row(tools, group) == [group, topic, "0", "0", "20"]
    assert tools.run(CONSOLE_SHARE_CONSUMER, *options, "--max-messages", "20").splitlines() == NUMBERS
    tools.run(SHARE_GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert "has no offset information" in tools.run(SHARE_GROUPS, "--describe", "--group", group)
    tools.run(SHARE_GROUPS, "--delete", "--group", group)
    assert group not in tools.run(SHARE_GROUPS, "--list").split()


@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_verdicts_and_renewal(tools: Tools, topic: str, distribution: Distribution, mode: str) -> None:
    tools.fill(topic)
    group = f"{topic}-group"
    begin_at_the_start(tools, group, "share.record.lock.duration.ms=1000")
    said = distribution.run_source(RENEWAL, tools.address, group, topic, "20", mode).splitlines()
    assert [line for line in said if line.startswith("renew")] == [f"renew 3 {count}" for count in range(1, 5)]
    assert "accept 3 1" in said, "longer held than a lock lasts, and still the first delivery"
    assert {"reject 5 1", "release 7 1", "accept 7 2"} <= set(said)
    settled = [line.split()[1] for line in said if line.split()[0] in ("accept", "reject")]
    assert sorted(settled, key=int) == NUMBERS
    if mode == "record_limit":
        (most,) = (int(line.split()[1]) for line in said if line.startswith("most"))
        assert most <= 4
    assert row(tools, group)[3:] == ["20", "0"]
