"""A streaming read in queue mode: what a batch reads is acquired for it alone, and settled when the batch is done.

    latestOffset   acquires under a lease; the acquisition's id is the end of the batch
    partitions     Spark has logged that end: the acquisition is pinned, and lasts from now on
    read           on executors; tells the broker in which batch it is read
    the sink       ours settles with its commit; after any other, the next latestOffset, commit or the listener does

A batch that was logged and never came to be planned may find its lease expired. Nobody has read anything of it then, and others
have its records by now: so it is empty, for good.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import InvalidOption, plain_errors
from mainstem.pipelines.queue_mode.options import QueueOptions
from mainstem.pipelines.queue_mode.reading import HeldPart, HeldScan, split_held
from mainstem.pipelines.queue_mode.settling import ACQUISITION, ADDRESS, SUBSCRIPTION, AcquisitionLost, settle_quietly
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.sdk.acquisitions import RELEASED, UNKNOWN, UNKNOWN_QUEUE, UNKNOWN_TOPIC, Acquisitions, Held
from mainstem.sdk.http_api import ApiRefused

IDLE_PAUSE_S = 0.05
"""How long Spark, which asks a hundred times a second, is made to wait when nothing is there."""

logger = logging.getLogger(__name__)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Acquires what is new."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._refusal: MainstemError | None = None
        try:
            check_spark_version()
            self._options = QueueOptions(given)
            self._scan = HeldScan(self._options, schema)
        except MainstemError as refusal:
            # Spark loses the error of a reader that cannot be made, so the first call tells it
            self._refusal = refusal
        self._http: str | None = None
        self._target: Mapping[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before anything was acquired; whether there is something to acquire from is found out at once."""
        with plain_errors():
            calls = self._calls()
            with self._explained():
                calls.ends(self._options.subscribed)
            return self._position("")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """There is always one: what is acquired is held."""
        return ReadMaxRows(1 if self._refusal is not None else self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing newer is there."""
        with plain_errors(), self._explained():
            self._target = self._calls().ends(self._options.subscribed)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Acquires; all that was acquired before is done with."""
        with plain_errors(), self._explained():
            acquired = self._calls().acquire(
                self._options.subscribed,
                records_max=self._options.rows_max,
                lease_ms=self._options.lease_ms,
                after=str(start.get(ACQUISITION, "")),
                until=self._target,
                starting=self._options.starting,
            )
            if acquired is None:
                time.sleep(IDLE_PAUSE_S)
                return start
            return self._position(acquired)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What one batch has acquired: the same whenever it is run again."""
        with plain_errors():
            name = str(end.get(ACQUISITION, ""))
            held = self._pin(name) if name and name != start.get(ACQUISITION) else None
            if held is None:
                return []
            is_settled = held.condition == "settled"
            parts = split_held(held.logs, self._options.scan.partitions_min)
            return [HeldPart(name, self._address(), part, is_settled=is_settled) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        assert isinstance(partition, HeldPart)
        return self._scan.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this late, and for the last micro-batch never."""
        settle_quietly(end)

    def stop(self) -> None:
        """Nothing is kept open."""

    def _pin(self, name: str) -> Held | None:
        try:
            return self._calls().pin(name)
        except ApiRefused as refusal:
            if refusal.problem == UNKNOWN:
                logger.warning("Acquisition %s expired before Spark came to read it: its batch is empty.", name)
                return None
            if refusal.problem == RELEASED and not self._options.scan.is_loss_an_error:
                logger.warning("Acquisition %s was released by command: its batch is empty.", name)
                return None
            if refusal.problem == RELEASED:
                raise AcquisitionLost(
                    f"Acquisition {name} of {self._options.subscribed.name!r}, which this batch was to read, was released by "
                    "command: others have its records. Set failOnDataLoss to false to go on without them, or start the query "
                    "with a new checkpoint."
                ) from None
            raise

    def _explained(self) -> _Explained:
        return _Explained(self._options)

    def _calls(self) -> Acquisitions:
        return self._options.acquisitions(self._address())

    def _address(self) -> str:
        if self._refusal is not None:
            raise self._refusal
        if self._http is None:
            self._http = self._options.http_address()
        return self._http

    def _position(self, name: str) -> dict[str, Any]:
        return {ACQUISITION: name, SUBSCRIPTION: self._options.subscribed.name, ADDRESS: self._address()}


class _Explained:
    """Around calls: what the broker refuses, as a sentence that says what to do."""

    def __init__(self, options: QueueOptions) -> None:
        self._options = options

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, ApiRefused):
            return
        name, vhost = self._options.subscribed.name, self._options.subscribed.vhost
        if error.problem == UNKNOWN_QUEUE:
            raise InvalidOption(
                f"There is no queue {name!r} in virtual host {vhost!r}: declare it first, correct the options `subscription` and "
                "`vhost`, or name topics by the option `topics` to read them under a subscription."
            ) from None
        if error.problem == UNKNOWN_TOPIC:
            raise InvalidOption(
                f"A topic of the subscription {name!r} is not there ({error.detail}): create it, or correct the options "
                "`topic` or `topics`."
            ) from None
        raise InvalidOption(f"Nothing can be acquired from {name!r}: {error.detail}.") from None
