"""What can be said to a source that acquires: `subscription`, and of the other options those that mean something then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from mainstem.pipelines.errors import InvalidOption, plain_errors
from mainstem.pipelines.options import Options
from mainstem.pipelines.source.options import SourceOptions
from mainstem.sdk.acquisitions import DEFAULT_HOST, Acquisitions, Subscribed
from mainstem.sdk.stages import http_address

SUBSCRIPTION, VHOST, LEASE_MS, HTTP_ADDRESS = "subscription", "vhost", "leaseMs", "httpAddress"
OWN = (SUBSCRIPTION, VHOST, LEASE_MS, HTTP_ADDRESS)
SHARED = (
    "topic", "topics", "subscribe", "startingOffsets", "maxRowsPerTrigger", "maxOffsetsPerTrigger", "minPartitions",
    "failOnDataLoss", "includeHeaders", "value.format", "value.schema", "value.message", "decoder",
)  # fmt: skip
STARTS = ("earliest", "latest")
ROWS_DEFAULT = 10_000
ROWS_MAX = 1_000_000
LEASE_MS_DEFAULT, LEASE_MS_MIN = 60_000, 1_000
NO_TOPIC = "-"


class QueueOptions:
    """Of a read in queue mode. Picklable."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(given, (*OWN, *SHARED))
        lowered = {name.lower(): value for name, value in given.items()}
        if "path" in lowered:
            raise InvalidOption("With `subscription`, name topics by the option `topic` or `topics`, not in load().")
        own = {name.lower() for name in OWN}
        rest = {name: value for name, value in lowered.items() if name not in own}
        has_topics = any(name in rest for name in ("topic", "topics", "subscribe"))
        self.plain = rest if has_topics else {**rest, "topic": NO_TOPIC}
        self.scan = SourceOptions(self.plain)
        """How records are read and decoded."""
        topics = _names(self.scan) if has_topics else ()
        vhost = options.text(VHOST)
        if vhost is not None and topics:
            raise InvalidOption("Option `vhost` is for queues, and topics are given: leave one of them out.")
        self.starting = options.text("startingOffsets")
        if self.starting is not None and (not topics or self.starting not in STARTS):
            raise InvalidOption(
                "Option `startingOffsets` is earliest or latest for a subscription to topics, and says where a topic is begun "
                "that it has not read; a queue goes on where it is."
            )
        name = options.text(SUBSCRIPTION) or ""
        if not name:
            raise InvalidOption("Option `subscription` is empty: name a queue, or a subscription to topics.")
        self.subscribed = Subscribed(name, topics, vhost or DEFAULT_HOST)
        self.rows_max = min(self.scan.rows_max or ROWS_DEFAULT, ROWS_MAX)
        self.lease_ms = options.number(LEASE_MS, LEASE_MS_DEFAULT, least=LEASE_MS_MIN) or LEASE_MS_DEFAULT
        self._http = options.text(HTTP_ADDRESS)
        if self.scan.format == "json" and self.scan.text("value.schema") is None:
            raise InvalidOption(
                "Option `value.schema` is needed with JSON here: what was acquired is not sampled first."
            )

    def http_address(self) -> str:
        """Where acquisitions are asked for: as told, or as the broker advertises it."""
        if self._http is not None:
            return self._http.removeprefix("http://").rstrip("/")
        with self.scan.client() as client:
            return http_address(client)

    def acquisitions(self, address: str) -> Acquisitions:
        """Calls to the broker."""
        return Acquisitions(address, timeout_s=self.scan.timeout_s)


def _names(scan: SourceOptions) -> tuple[str, ...]:
    text = scan.text(scan.selection) or ""
    names = [text] if scan.selection == "topic" else [name.strip() for name in text.split(",")]
    found = tuple(name for name in dict.fromkeys(names) if name)
    if not found:
        raise InvalidOption(f"Option `{scan.selection}` names no topic.")
    return found


def refuse_batch_read() -> NoReturn:
    """A batch read has no log of Spark's in which an acquisition could stand."""
    with plain_errors():
        raise InvalidOption(
            "Option `subscription` is for streams: use readStream with trigger(availableNow=True) to read what is there, "
            "or read the topic without it, which settles nothing."
        )
