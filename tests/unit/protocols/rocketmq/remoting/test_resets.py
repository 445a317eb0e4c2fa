"""Groups that an administrator moves."""

import json
import re

from mainstem.broker.broker import Broker
from tests.support.clients.remoting_client import ONE_WAY, RemotingClient
from tests.support.worlds.brokers import with_broker
from tests.unit.protocols.rocketmq.remoting.serving import MOVED, NO_TOPIC, SUCCESS, Served

RESET, COMMIT, COMMITTED = 222, 15, 14
PLACE = {"consumerGroup": "g", "topic": "t", "queueId": 0}


async def committed(client: RemotingClient) -> int:
    return int((await client.ask(COMMITTED, PLACE)).fields["offset"])


async def filled(broker: Broker) -> tuple[Served, RemotingClient]:
    served = Served(broker)
    client = served.client()
    for number in range(5):
        await client.publish("t", b"%d" % number, queue=0, g=1_000 + number * 10)
    await client.ask(COMMIT, {**PLACE, "commitOffset": 4})
    return served, client


@with_broker
async def test_a_group_without_members_is_moved(broker: Broker) -> None:
    _, client = await filled(broker)
    answer = await client.ask(RESET, {"group": "g", "topic": "t", "timestamp": 1_020})
    assert answer.code == SUCCESS
    assert {key["queueId"]: offset for key, offset in queue_offsets(answer.body)}[0] == 2
    assert await committed(client) == 2
    await client.ask(RESET, {"group": "g", "topic": "t", "timestamp": -1})
    assert await committed(client) == 2, "forward only by force"
    await client.ask(RESET, {"group": "g", "topic": "t", "timestamp": -1, "isForce": "true"})
    assert await committed(client) == 5
    await client.ask(RESET, {"group": "g", "topic": "t", "queueId": 0, "timestamp": 0, "offset": 1})
    assert await committed(client) == 1
    assert (await client.ask(RESET, {"group": "g", "topic": "none", "timestamp": 0})).code == NO_TOPIC


def queue_offsets(body: bytes) -> list[tuple[dict[str, object], int]]:
    return [(json.loads(key), int(value)) for key, value in re.findall(rb"({[^{}]*}):(\d+)", body)]


@with_broker
async def test_members_hear_of_it_and_their_old_commits_do_not_count(broker: Broker) -> None:
    served, client = await filled(broker)
    await client.beat("c1", "g", "t")
    administrator = served.client()
    await administrator.ask(RESET, {"group": "g", "topic": "t", "timestamp": 1_010})
    client.send(COMMIT, {**PLACE, "commitOffset": 5}, flag=ONE_WAY)
    await client.ask(COMMIT, {**PLACE, "commitOffset": 5})
    assert await committed(client) == 1
    moved = await client.pull("t", 5, 0, consumerGroup="g")
    assert (moved.code, moved.fields["nextBeginOffset"]) == (MOVED, "1")
    assert (await client.pull("t", 1, 0, consumerGroup="g")).code == SUCCESS, "told once"
    await client.ask(COMMIT, {**PLACE, "commitOffset": 3})
    assert await committed(client) == 3
