"""The worker: asks the broker what to run, and keeps it running.

One thread that waits for whatever comes first: a driver that writes or ends, a signal, the time for the next beat. What the
broker has granted is run until it says otherwise, or until the worker has not reached it for the time of a lease: then
somebody else may have been given it, and all drivers are ended.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

from mainstem.model.errors import MainstemError
from mainstem.pipelines.worker.bounded_log import BoundedLog
from mainstem.pipelines.worker.driver_process import DriverProcess, Order
from mainstem.pipelines.worker.workplace import Workplace
from mainstem.sdk.errors import ClientError
from mainstem.sdk.http_api import ask, path_of

BEAT_S = 2.0
BEAT_TIMEOUT_S = 5.0
LEASE_MARGIN_S = 5.0
"""So much before the lease is over drivers are ended: that takes a moment."""
LOG_PART_MAX = 32 << 10
LOGS_PART_MAX = 256 << 10
"""Of all logs together, with one beat."""
LOG = "driver.log"

logger = logging.getLogger(__name__)


class Supervisor:
    """One worker."""

    def __init__(self, workplace: Workplace, http_address: str, *, room: int, is_supervised: bool = False) -> None:
        self._workplace = workplace
        self._http = http_address
        self._room = room
        self._worker = workplace.worker_id()
        self._incarnation = uuid.uuid4().hex
        self._drivers: dict[str, DriverProcess] = {}
        self._stops = 0
        self._beat_at_s = 0.0
        self._lease_until_s = float("inf")
        self._life_line = sys.stdin.fileno() if is_supervised else -1
        """The process that started this worker holds the other end."""
        self._is_silent = False
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        self._wakes = reading
        signal.set_wakeup_fd(writing)

    def run(self) -> None:
        """Until a signal, or the end of the process that started it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        logger.info("worker %s asks %s", self._worker, self._http)
        try:
            while not self._stops:
                self._step()
            self._leave()
        finally:
            for driver in self._drivers.values():
                driver.kill()

    def _on_signal(self, *_: object) -> None:
        self._stops += 1

    def _step(self) -> None:
        self._wait()
        changed = [driver for driver in list(self._drivers.values()) if driver.look()]
        for driver in changed:
            self._tell(driver)
        if changed or time.monotonic() >= self._beat_at_s:
            self._beat()
        self._act()

    def _wait(self) -> None:
        now = time.monotonic()
        due = min([self._beat_at_s, *(driver.due_s for driver in self._drivers.values())])
        reading = [self._wakes, *(fd for driver in self._drivers.values() for fd in driver.descriptors())]
        if self._life_line >= 0:
            reading.append(self._life_line)
        ready, _, _ = select.select(reading, [], [], max(0.0, min(due - now, BEAT_S)))
        if self._wakes in ready:
            os.read(self._wakes, 1024)
        if self._life_line in ready and not os.read(self._life_line, 1024):
            logger.warning("the process that started this worker is gone: the worker ends with its drivers")
            os._exit(1)  # their life lines end with this process

    def _tell(self, driver: DriverProcess) -> None:
        if driver.condition == "failed":
            logger.warning("pipeline %s failed: %s", driver.order.name, driver.error)
        else:
            logger.info("pipeline %s is %s", driver.order.name, driver.condition)

    # The broker

    def _beat(self, *, leaving: bool = False) -> None:
        sent = time.monotonic()
        self._beat_at_s = sent + BEAT_S
        try:
            orders = ask(
                self._http,
                "POST",
                path_of("v1", "workers", self._worker, "beat"),
                self._message(leaving),
                timeout_s=BEAT_TIMEOUT_S,
            )
        except ClientError as error:
            if not self._is_silent:
                logger.warning("the broker does not answer: %s", error)
            self._is_silent = True
            if time.monotonic() >= self._lease_until_s:
                self._give_up()
            return
        self._is_silent = False
        self._lease_until_s = sent + orders["lease_ms"] / 1000 - LEASE_MARGIN_S
        if not leaving:
            self._obey(orders)

    def _message(self, leaving: bool) -> Mapping[str, Any]:
        reports, left = [], LOGS_PART_MAX
        for name, driver in self._drivers.items():
            if leaving and not driver.is_alive:
                continue
            position, text = driver.log.after(driver.log_sent, min(LOG_PART_MAX, left))
            left -= len(text)
            reports.append(
                {
                    "name": name,
                    "epoch": driver.order.epoch,
                    "revision": driver.order.revision,
                    "condition": driver.condition,
                    "error": driver.error,
                    "restarts": driver.restarts,
                    "log_position": position,
                    "log": text,
                }
            )
        room = max(0, self._room - len(self._drivers))
        return {"incarnation": self._incarnation, "room": room, "pipelines": reports, "leaving": leaving}

    def _obey(self, orders: Mapping[str, Any]) -> None:
        wanted = {order["name"]: order for order in orders["pipelines"]}
        for name, given in wanted.items():
            order = Order(**{key: value for key, value in given.items() if key != "log_end"})
            self._want(order)
            self._drivers[name].log_sent = given["log_end"]
        for name, driver in self._drivers.items():
            if name not in wanted:
                driver.is_removed = driver.is_removed or name in orders["removed"]
                driver.next_order = None
                driver.stop()

    def _want(self, order: Order) -> None:
        driver = self._drivers.get(order.name)
        if driver is None:
            self._workplace.make_room(order.name, order.identity)
            log = BoundedLog(self._workplace.place(order.name) / LOG)
            self._drivers[order.name] = DriverProcess(order, log)
        elif driver.order != order:
            driver.next_order = order
            driver.stop()

    def _give_up(self) -> None:
        """Another worker may run all this by now."""
        if any(driver.is_alive for driver in self._drivers.values()):
            logger.warning("the leases are over: all drivers are ended")
        for driver in self._drivers.values():
            driver.kill()

    # The drivers

    def _act(self) -> None:
        for name, driver in list(self._drivers.items()):
            if driver.is_alive:
                continue
            if not driver.is_wanted:
                self._let_go(name, driver)
            elif driver.condition != "finished" and time.monotonic() >= driver.due_s and not self._is_late():
                self._start(driver)

    def _is_late(self) -> bool:
        return time.monotonic() >= self._lease_until_s

    def _let_go(self, name: str, driver: DriverProcess) -> None:
        driver.log.close()
        del self._drivers[name]
        if driver.is_removed:
            self._workplace.clear(name, driver.order.identity)
        if driver.next_order is not None:
            self._want(driver.next_order)
            self._drivers[name].restarts = driver.restarts
            self._start(self._drivers[name])

    def _start(self, driver: DriverProcess) -> None:
        order = driver.order
        try:
            kafka = self._kafka_address()
            definition = self._workplace.prepare(order.name, order.identity, order.file, order.definition, order.files)
        except (MainstemError, OSError) as error:
            driver.put_off(str(error))
            self._tell(driver)
            return
        driver.start(
            definition,
            [
                "--name",
                order.name,
                "--epoch",
                str(order.epoch),
                "--http",
                self._http,
                "--address",
                kafka,
                "--data-dir",
                str(self._workplace.data_dir),
            ],
        )
        logger.info("pipeline %s is started, revision %d", order.name, order.revision)

    def _kafka_address(self) -> str:
        answer = ask(self._http, "GET", "/v1/node", timeout_s=BEAT_TIMEOUT_S)
        addresses = (answer.get("advertised") or {}).get("kafka")
        if not addresses:
            raise ClientError(
                "The broker serves no Kafka, by which Spark reads: start it with --listen kafka=HOST:PORT."
            )
        return str(addresses[0])

    def _leave(self) -> None:
        """End all drivers after their micro-batches; a second signal ends them at once."""
        logger.info("the worker ends")
        for driver in self._drivers.values():
            driver.next_order = None
            driver.stop()
        while any(driver.is_alive for driver in self._drivers.values()):
            self._wait()
            if self._stops > 1:
                for driver in self._drivers.values():
                    driver.kill()
            for driver in self._drivers.values():
                driver.look()
            if time.monotonic() >= self._beat_at_s:
                self._beat(leaving=True)
        self._beat(leaving=True)
