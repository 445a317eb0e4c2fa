"""A real Kafka broker, to compare with: KRaft, one node, on loopback."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.java.distribution import Distribution
from tests.support.serving.ports import lasting_address

START_SECONDS_MAX = 120
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@contextlib.contextmanager
def running_kafka(distribution: Distribution, home: Path) -> Iterator[str]:
    """The address of a broker that lives as long as the context."""
    home.mkdir(parents=True)
    address, controller = lasting_address(), lasting_address()
    properties = home / "server.properties"
    properties.write_text(PROPERTIES.format(address=address, controller=controller, data=home / "data"))
    distribution.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
    with (home / "out").open("w") as out:
        process = distribution.start("kafka.Kafka", str(properties), out=out)
        try:
            wait_answering(address, process)
            yield address
        finally:
            process.kill()
            process.wait()


def wait_answering(address: str, process: subprocess.Popen[bytes]) -> None:
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        assert process.poll() is None, "Kafka has ended"
        try:
            client.list_topics(timeout=2)
        except KafkaException:
            assert time.monotonic() < deadline, "Kafka does not answer"
        else:
            return
