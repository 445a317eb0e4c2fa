"""Streams groups (KIP-1071) by hand: no client in Python speaks their protocol. `tests/java` has a real application."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.clients.kafka.wire_client import ask
from tests.support.clients.confluent import admin, create
from tests.support.serving.kafka import Broker, serving

pytestmark = pytest.mark.conformance

AT_ONCE = (
    "--set",
    "kafka.streams_group_initial_delay_ms=0",
    "--set",
    "kafka.streams_group_assignment_interval_ms=0",
    "--set",
    "kafka.streams_group_standby_replicas=1",
)
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
CHANGELOG = {"name": "app-counts-changelog", "partitions": 0, "replication_factor": 0, "topic_configs": []}
TOPOLOGY = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": ["words"],
            "source_topic_regex": [],
            "state_changelog_topics": [CHANGELOG],
            "repartition_sink_topics": [],
            "repartition_source_topics": [],
            "copartition_groups": [],
        }
    ],
}


class Member:
    """A member that does what it is told."""

    def __init__(self, broker: Broker, member_id: str) -> None:
        self._broker = broker
        self.id = member_id
        self.epoch = 0
        self.active: set[int] = set()
        self.standby: set[int] = set()

    def beat(self, **said: Any) -> Any:
        body = {"group_id": "app", "member_id": self.id, "member_epoch": self.epoch, "endpoint_information_epoch": 0}
        if self.epoch == 0:
            body |= {"rebalance_timeout_ms": 60_000, "topology": TOPOLOGY, "process_id": self.id} | NO_TASKS
        else:
            body |= {"active_tasks": _tasks(self.active), "standby_tasks": _tasks(self.standby), "warmup_tasks": []}
        told = ask(self._broker.address, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **body | said)
        assert told.error_code == ErrorCode.NONE, told.error_message
        self.epoch = told.member_epoch
        if told.active_tasks is not None:
            self.active, self.standby = _partitions(told.active_tasks), _partitions(told.standby_tasks)
        return told


def _tasks(partitions: set[int]) -> list[dict[str, Any]]:
    return [{"subtopology_id": "0", "partitions": sorted(partitions)}] if partitions else []


def _partitions(tasks: Any) -> set[int]:
    return {partition for entry in tasks for partition in entry.partitions}


def settle(*members: Member) -> None:
    """All of them beat until nothing changes any more; in between nobody has a task that another has."""
    quiet = 0
    for member in itertools.cycle(members):
        before = (member.epoch, member.active, member.standby)
        member.beat()
        owned = [partition for each in members for partition in each.active]
        assert len(owned) == len(set(owned))
        quiet = quiet + 1 if before == (member.epoch, member.active, member.standby) else 0
        if quiet > len(members):
            return


def test_tasks_are_shared_out_and_survive_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *AT_ONCE) as broker:
        create(broker, "words", 4)
        one, two = Member(broker, "one"), Member(broker, "two")
        one.beat()
        assert one.active == {0, 1, 2, 3}
        assert len(admin(broker).list_topics(timeout=10).topics["app-counts-changelog"].partitions) == 4
        two.beat()
        assert two.active == set()
        settle(one, two)
        assert len(one.active) == len(two.active) == 2
        assert (one.standby, two.standby) == (two.active, one.active)
        before = [(member.epoch, member.active, member.standby) for member in (one, two)]
        broker.kill()
        broker.start()
        (group,) = ask(broker.address, ApiKey.STREAMS_GROUP_DESCRIBE, 0, group_ids=["app"]).groups
        assert (group.group_state, len(group.members)) == ("Stable", 2)
        assert [one.beat().active_tasks, two.beat().active_tasks] == [None, None]
        assert [(member.epoch, member.active, member.standby) for member in (one, two)] == before
        three = Member(broker, "three")
        three.beat()
        settle(one, two, three)
        assert sorted(len(member.active) for member in (one, two, three)) == [1, 1, 2]
        broker.kill()
        broker.start()
        for member in (two, three):
            member.beat(member_epoch=-1)
        settle(one)
        assert (one.active, one.standby) == ({0, 1, 2, 3}, set())


def test_offsets_need_the_members_epoch(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *AT_ONCE) as broker:
        create(broker, "words", 1)
        member = Member(broker, "one")
        member.beat()
        partitions = [{"partition_index": 0, "committed_offset": 3}]
        topics = [{"name": "words", "partitions": partitions}]
        for epoch, code in ((member.epoch, ErrorCode.NONE), (member.epoch - 1, ErrorCode.STALE_MEMBER_EPOCH)):
            body = {"group_id": "app", "member_id": "one", "generation_id_or_member_epoch": epoch, "topics": topics}
            answer = ask(broker.address, ApiKey.OFFSET_COMMIT, 9, **body)
            assert answer.topics[0].partitions[0].error_code == code
