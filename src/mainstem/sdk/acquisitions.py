"""Records acquired from a queue, or from topics under a subscription; see docs/queue-mode.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from mainstem.sdk.http_api import ask, ask_bytes, insist

PATH = "/v1/acquisitions"
UNKNOWN, RELEASED = "unknown-acquisition", "acquisition-released"
UNKNOWN_QUEUE, UNKNOWN_TOPIC = "unknown-queue", "unknown-topic"
DEFAULT_HOST, DEFAULT_NAMESPACE = "/", "default"


class Subscribed(NamedTuple):
    """Where records are acquired: a queue of a virtual host, or topics."""

    name: str
    topics: Sequence[str] = ()
    vhost: str = DEFAULT_HOST

    def plain(self) -> dict[str, Any]:
        """As it is asked for."""
        if self.topics:
            return {"subscription": self.name, "topics": list(self.topics)}
        namespace = DEFAULT_NAMESPACE if self.vhost == DEFAULT_HOST else self.vhost
        return {"subscription": self.name, "namespace": namespace}


class HeldLog(NamedTuple):
    """What is held of one log."""

    log: int
    topic: str | None
    partition: int
    stretches: Sequence[tuple[int, int, int]]
    """First and last offset, and the delivery number."""


class Held(NamedTuple):
    """What an acquisition holds, or has held."""

    condition: str
    logs: Sequence[HeldLog]


class SettlementEntry(NamedTuple):
    """What is to become of some records of one log, other than to be accepted."""

    acquisition: str
    log: int
    offsets: Sequence[int]
    verdict: str
    delay_ms: int = 0
    reason: str = ""


class Acquisitions:
    """Calls to one broker."""

    def __init__(self, address: str, *, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def acquire(
        self,
        subscribed: Subscribed,
        *,
        records_max: int,
        lease_ms: int,
        after: str = "",
        until: Mapping[int, int] | None = None,
        starting: str | None = None,
    ) -> str | None:
        """The id of what was acquired; None when nothing is there. What it comes after is done with."""
        wish = {**subscribed.plain(), "records_max": records_max, "lease_ms": lease_ms, "after": after}
        if until is not None:
            wish["until"] = {str(log): end for log, end in until.items()}
        if starting is not None:
            wish["starting"] = starting
        acquired = self._post("", wish)["acquisition"]
        return None if acquired is None else str(acquired["id"])

    def ends(self, subscribed: Subscribed) -> dict[int, int]:
        """Where each log ends that would be acquired from."""
        return {int(log): int(end) for log, end in self._post("/ends", subscribed.plain())["ends"].items()}

    def pin(self, name: str) -> Held:
        """It is logged: from now on it lasts."""
        return _held(self._post(f"/{quote(name, safe='')}/pin", None))

    def read(self, name: str, query: str, batch: int) -> None:
        """It is read in this batch."""
        self._post(f"/{quote(name, safe='')}/read", {"query": query, "batch": batch})

    def rule(self, name: str, who: str, verdicts: Iterable[SettlementEntry]) -> None:
        """In place of what the same one said before."""
        said = [verdict._asdict() for verdict in verdicts]
        self._post(f"/{quote(name, safe='')}/verdicts", {"who": who, "verdicts": said})

    def settle(self, name: str) -> None:
        """Accept it, but for what was ruled on."""
        self._post(f"/{quote(name, safe='')}/settle", None)

    def release(self, name: str) -> Mapping[str, Any]:
        """Let others have its records."""
        released: Mapping[str, Any] = self._post(f"/{quote(name, safe='')}/release", None)
        return released

    def list(self, subscription: str = "", limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """The oldest first."""
        wish = urlencode({"subscription": subscription, "limit": limit})
        answer = ask(self._address, "GET", f"{PATH}?{wish}", timeout_s=self._timeout_s)
        found: Sequence[Mapping[str, Any]] = answer["acquisitions"]
        return found

    def batches(self, name: str, log: int, offset: int) -> bytes:
        """Record batches of a log that Kafka's protocol does not show, as they are stored."""
        path = f"{PATH}/{quote(name, safe='')}/batches/{log}?offset={offset}"
        return ask_bytes(self._address, "GET", path, timeout_s=self._timeout_s)

    def _post(self, path: str, content: Mapping[str, Any] | None) -> Any:
        return insist(self._address, PATH + path, content, timeout_s=self._timeout_s)


def _held(answer: Mapping[str, Any]) -> Held:
    logs = [
        HeldLog(one["log"], one["topic"], one["partition"], [(a, b, c) for a, b, c in one["stretches"]])
        for one in answer["held"]
    ]
    return Held(str(answer["acquisition"]["condition"]), logs)
