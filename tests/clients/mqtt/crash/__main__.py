"""Kills a real broker under load from MQTT clients: python -m tests.clients.mqtt.crash --cycles 200."""

import sys

from tests.clients.mqtt.crash.victim import mqtt_at_work
from tests.support.crashing.command import run_command

SUMMARY = (
    "{one} messages of QoS 1 acknowledged and none lost, {two} of QoS 2 exactly once, in the log and by the subscriber, "
    "{wills} wills of killed brokers published"
)

if __name__ == "__main__":
    sys.exit(run_command("tests.clients.mqtt.crash", __doc__, mqtt_at_work, SUMMARY))
