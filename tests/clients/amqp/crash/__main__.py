"""Kills a real broker under load from AMQP clients: python -m tests.clients.amqp.crash --cycles 200."""

import sys

from tests.clients.amqp.crash.victim import amqp_at_work
from tests.support.crashing.command import run_command

SUMMARY = (
    "{confirmed} confirmed messages, {settled} acknowledged for good, {delayed} delayed, {dead} dead letters: "
    "nothing lost, nothing given again, order kept"
)

if __name__ == "__main__":
    sys.exit(run_command("tests.clients.amqp.crash", __doc__, amqp_at_work, SUMMARY))
