"""Options as Spark hands them over: names without case, values as text. One that is not known is refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from mainstem.pipelines.errors import InvalidOption
from mainstem.sdk.client import Client

ADDRESS = "address"
ADDRESS_DEFAULT = "127.0.0.1:9092"
TIMEOUT = "timeout"
TIMEOUT_S_DEFAULT = 30.0

COMMON = frozenset({ADDRESS, "bootstrap.servers", "kafka.bootstrap.servers", TIMEOUT})
"""What source and sink both know. The middle two are what a job for Spark's Kafka connector says already."""

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "mergeschema", "outputmode"})
"""What Spark adds to the options by itself."""

SECRETS = ("password", "user", "sasl", "jaas", "ssl", "secret", "token")
"""An option is shown in plans and pages, so nothing secret may be one."""


class Options:
    """The options of one source or sink, checked against those it knows."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        names = sorted(COMMON.union(known))
        lowered = {name.lower() for name in names}
        for name in self._values:
            if name not in lowered and name not in SPARKS_OWN:
                raise InvalidOption(_unknown(name, names))

    def text(self, name: str, default: str | None = None) -> str | None:
        """As given."""
        return self._values.get(name.lower(), default)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of a few words, in any case."""
        value = self._values.get(name.lower(), default).lower()
        allowed = list(choices)
        if value not in allowed:
            raise InvalidOption(f"Option `{name}` is {value!r}; it can be {', '.join(allowed)}.")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: int | None = None, *, least: int = 1) -> int | None:
        """A whole number."""
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise InvalidOption(f"Option `{name}` is {text!r}; it must be a whole number.") from None
        if value < least:
            raise InvalidOption(f"Option `{name}` is {value}; it must be {least} at least.")
        return value

    @property
    def address(self) -> str:
        """Where the broker's Kafka listener is, as executors reach it."""
        for name in (ADDRESS, "kafka.bootstrap.servers", "bootstrap.servers"):
            if name in self._values:
                return self._values[name]
        return ADDRESS_DEFAULT

    @property
    def timeout_s(self) -> float:
        """How long a broker that does not answer is waited for."""
        text = self._values.get(TIMEOUT)
        if text is None:
            return TIMEOUT_S_DEFAULT
        try:
            value = float(text.removesuffix("s"))
        except ValueError:
            value = 0
        if value <= 0:
            raise InvalidOption(f"Option `{TIMEOUT}` is {text!r}; it must be a number of seconds above 0.")
        return value

    def client(self, client_id: str = "mainstem-spark") -> Client:
        """A client of the broker; credentials come from the environment of the process that asks."""
        return Client(self.address, timeout_s=self.timeout_s, client_id=client_id)


def _unknown(name: str, names: list[str]) -> str:
    if any(word in name for word in SECRETS):
        return (
            f"Option `{name}` is refused: options are shown in plans and in the UI. Set MAINSTEM_CLIENT_USER and "
            "MAINSTEM_CLIENT_PASSWORD in the environment instead, for executors by spark.executorEnv."
        )
    near = difflib.get_close_matches(name, [known.lower() for known in names], 1)
    hint = f"did you mean `{next(known for known in names if known.lower() == near[0])}`?" if near else ""
    return f"Option `{name}` is not known; {hint or 'the options are ' + ', '.join(names) + '.'}"
