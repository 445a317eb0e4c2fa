"""PostgreSQL, SeaweedFS and two brokers, for trying a cluster: `make cluster`. It lasts until Ctrl-C; nothing is kept.

It can be disturbed: kill a broker by its process id, pause it, start it again with the command that is printed.
"""

import contextlib
import shlex
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.serving.shared_store import ClusterBroker, shared_store


def main() -> None:
    with TemporaryDirectory() as directory, shared_store() as store:
        print(f"PostgreSQL: {store.database}\nObject store: {store.weed.endpoint}, {store.address}")
        brokers = []
        try:
            for number, word in ((1, "ready"), (2, "standby")):
                broker = ClusterBroker(store, Path(directory) / f"broker-{number}")
                brokers.append(broker)
                broker.wait_line(word)
                print(f"broker {number}: {word}, process {broker.program.process.pid}")
                print(f"  kafka={broker.kafka} amqp={broker.amqp} http={broker.http}")
            variables = " ".join(f"{name}={value}" for name, value in store.environment.items())
            print(f"Status:    mainstem cluster status --cluster {shlex.quote(store.database)}")
            print(f"Hand over: mainstem cluster hand-over --cluster {shlex.quote(store.database)}")
            print(f"A further broker: {variables} mainstem serve --data-dir DIR {shlex.join(store.options)}")
            print("Ctrl-C ends all of it.", flush=True)
            while any(broker.is_running for broker in brokers):
                time.sleep(0.5)
        finally:
            for broker in brokers:
                if broker.is_running:
                    broker.kill()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
