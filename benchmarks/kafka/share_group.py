"""Load for a share group: one member takes records and accepts them with its next fetch."""

from __future__ import annotations

import time

from benchmarks.kafka.brokers import Running
from benchmarks.kafka.clients import connect, framed, received
from mainstem.wire.kafka import ApiKey, decode_response

GROUP_RESOURCE = 32
ACCEPT = 1
MEMBER = "00000000-0000-0000-0000-000000000001"
TAKEN_AT_ONCE = 2000
JOIN_S = 30


class Member:
    """The only member of a group that begins with the oldest record."""

    def __init__(self, broker: Running, group: str, topic: str) -> None:
        self._connection = connect(broker)
        self._group = group
        self._epoch = 0
        self._accepted: dict[tuple[str, int], list[dict[str, object]]] = {}
        begin = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [begin]}
        self._ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
        self._places = self._join(topic)

    def _ask(self, api: int, version: int, body: dict[str, object]) -> object:
        self._connection.sendall(framed(api, version, body))
        return decode_response(api, version, received(self._connection))[1]

    def _join(self, topic: str) -> dict[object, list[int]]:
        epoch, until = 0, time.monotonic() + JOIN_S
        while time.monotonic() < until:
            body = {"group_id": self._group, "member_id": MEMBER, "member_epoch": epoch, "rack_id": None,
                    "subscribed_topic_names": [topic]}  # fmt: skip
            answer = self._ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, body)
            assert answer.error_code == 0, answer  # type: ignore[attr-defined]
            epoch = answer.member_epoch  # type: ignore[attr-defined]
            assignment = answer.assignment  # type: ignore[attr-defined]
            if assignment is not None and assignment.topic_partitions:
                return {given.topic_id: list(given.partitions) for given in assignment.topic_partitions}
            time.sleep(0.05)
        raise RuntimeError("the group gave no partition")

    def take(self) -> int:
        """Fetch once, and accept what the fetch before took; answers the count of records that are new."""
        topics = [
            {"topic_id": topic, "partitions": [
                {"partition_index": index, "acknowledgement_batches": self._accepted.pop((str(topic), index), [])}
                for index in partitions
            ]} for topic, partitions in self._places.items()
        ]  # fmt: skip
        body = {"group_id": self._group, "member_id": MEMBER, "share_session_epoch": self._epoch, "max_wait_ms": 500,
                "min_bytes": 1, "max_bytes": 1 << 22, "max_records": TAKEN_AT_ONCE, "batch_size": TAKEN_AT_ONCE,
                "share_acquire_mode": 0, "is_renew_ack": False, "topics": topics, "forgotten_topics_data": []}  # fmt: skip
        answer = self._ask(ApiKey.SHARE_FETCH, 2, body)
        assert answer.error_code == 0, answer  # type: ignore[attr-defined]
        self._epoch += 1
        taken = 0
        for topic in answer.responses:  # type: ignore[attr-defined]
            for partition in topic.partitions:
                assert (partition.error_code, partition.acknowledge_error_code) == (0, 0), partition
                for run in partition.acquired_records:
                    taken += run.last_offset - run.first_offset + 1
                    accepted = {"first_offset": run.first_offset, "last_offset": run.last_offset}
                    place = self._accepted.setdefault((str(topic.topic_id), partition.partition_index), [])
                    place.append(accepted | {"acknowledge_types": [ACCEPT]})
        return taken

    def close(self) -> None:
        """Accept what was taken last, and go."""
        self.take()
        self._connection.close()


def take_all(broker: Running, group: str, topic: str, count: int) -> int:
    """Take and accept records until there were `count`; answers the count that it was."""
    member = Member(broker, group, topic)
    taken = 0
    while taken < count:
        taken += member.take()
    member.close()
    return taken
