"""Kills a real broker under load from Kafka clients: python -m tests.clients.kafka.crash --cycles 200."""

import sys

from tests.clients.kafka.crash.victim import kafka_at_work
from tests.support.crashing.command import run_command

SUMMARY = (
    "{acknowledged} acknowledged records, {transactions} committed transactions, offsets up to {offsets}, "
    "{settled} records settled by a share group: nothing lost, doubled or torn, no offset gone back, "
    "nothing settled given again"
)

if __name__ == "__main__":
    sys.exit(run_command("tests.clients.kafka.crash", __doc__, kafka_at_work, SUMMARY))
