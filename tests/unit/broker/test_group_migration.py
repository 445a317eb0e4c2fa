"""A change from one group protocol to the other that cannot be stored has not happened."""

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import RebalanceUnderWay
from mainstem.broker.groups.directed_groups import JOINS, Beat
from mainstem.broker.groups.groups import GroupRules, GroupState, JoinWish
from mainstem.model.errors import Overloaded
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka.consumer_protocol import encode_assignment, encode_subscription
from tests.support.worlds.brokers import refuse_once, with_engine

SUBSCRIPTION = bytes(encode_subscription({"topics": ["t"]}))
ASSIGNMENT = bytes(encode_assignment({"assigned_partitions": [{"topic": "t", "partitions": [0]}]}))
WISH = JoinWish("", None, "old", "", 10_000, 10_000, "consumer", (("range", SUBSCRIPTION),), False, False)
NEW = Beat("new", JOINS, "new", frozenset({"t"}), rebalance_timeout_ms=10_000)


async def stable(engine: MemoryEngine) -> tuple[Broker, str]:
    """A broker with a group of one classic member."""
    broker = await Broker.open(engine, LoopClock())
    broker.groups.govern(GroupRules(initial_delay_ms=0))
    await broker.topics.create([NewTopic("t", 2)])
    joined = (await broker.groups.join("g", WISH)).result()
    await broker.groups.sync("g", joined.member_id, None, 1, (None, None), {joined.member_id: ASSIGNMENT})
    return broker, joined.member_id


@with_engine
async def test_an_upgrade_that_is_not_stored(engine: MemoryEngine) -> None:
    broker, old = await stable(engine)
    refuse_once(engine)
    with pytest.raises(Overloaded):
        await broker.groups.beat("g", NEW)
    assert "g" not in broker.directed_groups
    broker.groups.heartbeat("g", old, None, 1)
    assert (await broker.groups.beat("g", NEW)).epoch == 2
    with pytest.raises(RebalanceUnderWay):
        broker.groups.heartbeat("g", old, None, 1)


@with_engine
async def test_a_downgrade_that_is_not_stored(engine: MemoryEngine) -> None:
    broker, old = await stable(engine)
    told = await broker.groups.beat("g", NEW)
    refuse_once(engine)
    with pytest.raises(Overloaded):
        await broker.groups.beat("g", Beat("new", -1, "new"))
    assert sorted(broker.directed_groups.get("g").members) == sorted([old, "new"])
    assert (await broker.groups.beat("g", Beat("new", told.epoch, "new"))).epoch == told.epoch
    await broker.groups.beat("g", Beat("new", -1, "new"))
    assert "g" not in broker.directed_groups
    assert broker.groups.get("g").state is GroupState.JOINING
    again = await Broker.open(engine, LoopClock())
    assert "g" not in again.directed_groups
    assert list(again.groups.get("g").members) == [old]


@with_engine
async def test_who_waits_in_a_classic_group_is_sent_to_the_new_one(engine: MemoryEngine) -> None:
    broker, old = await stable(engine)
    waiting = await broker.groups.join("g", WISH)
    assert not waiting.done
    await broker.groups.beat("g", NEW)
    with pytest.raises(RebalanceUnderWay):
        await waiting
    joined = await broker.groups.join("g", WISH._replace(member_id=old))
    assert joined.result().leader == ""
