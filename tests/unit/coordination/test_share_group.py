"""Members of a share group, and what they are told."""

from uuid import UUID

import pytest

from mainstem.coordination.errors import FencedMember, GroupFull, InvalidGroupConfig, UnknownMember
from mainstem.coordination.groups.group_config import beat_rules, check_group_config, duration_ms, read_rules
from mainstem.coordination.groups.heartbeats import Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.share_group import ShareGroup, assign_shared
from mainstem.coordination.groups.topology import TopicShape
from tests.support.worlds.topologies import Topics

TOPICS = Topics({"t": TopicShape(UUID(int=1), 3), "u": TopicShape(UUID(int=2), 1)})


def beat(group: ShareGroup, member: str, epoch: int, *topics: str, now_ms: int = 0) -> HeartbeatReply:
    return group.beat(Beat(member, epoch, "", frozenset(topics) or None), TOPICS, now_ms)


def parts(told: HeartbeatReply) -> list[int] | None:
    return None if told.share is None else sorted(place.partition for place in told.share)


def test_members_come_and_go() -> None:
    group = ShareGroup("g", BeatRules(2, 1_000), 4)
    assert beat(group, "a", 0, "t").epoch == 5
    assert parts(beat(group, "a", 5)) is None
    assert parts(beat(group, "b", 0, "t")) == [1]
    told = beat(group, "a", 5)
    assert (told.epoch, parts(told)) == (6, [0, 2])
    assert parts(beat(group, "a", 5)) == [0, 2], "the answer was lost, and is given again"
    with pytest.raises(GroupFull):
        beat(group, "c", 0, "t")
    with pytest.raises(FencedMember):
        beat(group, "a", 4)
    beat(group, "b", -1)
    with pytest.raises(UnknownMember):
        beat(group, "b", 6)
    assert parts(beat(group, "a", 6, now_ms=500)) == [0, 1, 2]
    assert group.next_deadline_ms() == 1_500
    assert [member.id for member in group.late(1_500)] == ["a"]


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7])
def test_every_partition_has_a_member_and_every_member_a_partition(members: int) -> None:
    wanted = {str(number): {"t"} for number in range(members)}
    shares = assign_shared(wanted, TOPICS)
    assert {place.partition for share in shares.values() for place in share} == {0, 1, 2}
    assert all(shares.values())


def test_settings() -> None:
    assert duration_ms("P1DT2H3M4.5S") == 93_784_500
    assert duration_ms("P") is None
    assert read_rules({"share.isolation.level": "read_committed"}).committed_only
    rules = BeatRules(7, 1_000, 100)
    assert beat_rules({"share.session.timeout.ms": "50000"}, "share", rules) == BeatRules(7, 50_000, 100)
    assert beat_rules({"share.session.timeout.ms": "50000"}, "consumer", rules) == rules
    for name, value in (("share.delivery.count.limit", "1"), ("share.auto.offset.reset", "by_duration:1h"), ("x", "1")):
        with pytest.raises(InvalidGroupConfig):
            check_group_config({name: value})
