"""The term of the shared log is the leader epoch: clients that know an older or a newer one are told so."""

import pytest

from mainstem.broker.broker import Broker
from mainstem.model.errors import OwnershipLost
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.groups.classic_groups import group_code
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Connect, batch, with_adapter

TERM = 3
VERDICTS = [(-1, 0), (TERM, 0), (TERM - 1, ErrorCode.FENCED_LEADER_EPOCH), (TERM + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)]


@pytest.mark.parametrize(("epoch", "code"), VERDICTS)
def test_reads_name_the_current_epoch_or_none(epoch: int, code: int) -> None:
    @with_adapter
    async def ask(connect: Connect, broker: Broker) -> None:
        client = connect()
        await client.create("t")
        broker.term = TERM
        wanted = {"partition": 0, "current_leader_epoch": epoch, "partition_max_bytes": 10}
        fetched = await client.ask(ApiKey.FETCH, 12, topics=[{"topic": "t", "partitions": [wanted]}])
        assert fetched.responses[0].partitions[0].error_code == code
        place = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}
        listed = await client.ask(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": [place]}])
        assert listed.topics[0].partitions[0].error_code == code

    ask()


@with_adapter
async def test_every_epoch_up_to_the_current_one_reaches_to_the_end(connect: Connect, broker: Broker) -> None:
    client = connect()
    await client.create("t")
    await client.produce("t", batch(b"1", b"2"))
    broker.term = TERM
    for epoch, end in ((0, 2), (TERM - 1, 2), (TERM, 2), (TERM + 1, -1)):
        asked = {"partition": 0, "current_leader_epoch": TERM, "leader_epoch": epoch}
        topics = [{"topic": "t", "partitions": [asked]}]
        (answer,) = (await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)).topics[0].partitions
        assert (answer.error_code, answer.end_offset) == (0, end)


def test_an_owner_that_lost_the_log_sends_clients_to_look_for_another() -> None:
    lost = OwnershipLost("term 3 is over")
    assert code_of(lost) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert group_code(lost) == ErrorCode.NOT_COORDINATOR
