"""Which measurements clients are to push (KIP-714), as administrators have asked for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.errors import InvalidClientMetrics, InvalidNamePattern
from mainstem.storage.contract import Engine, Mutation

SCOPE = "client_metrics"
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
SELECTORS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, str]).decode


class MetricsOption(NamedTuple):
    """One setting."""

    name: str
    kind: str
    default: str
    text: str


METRICS_OPTIONS: Mapping[str, MetricsOption] = {
    option.name: option
    for option in (
        MetricsOption("interval.ms", "int", "300000", "How often clients push."),
        MetricsOption("match", "list", "", "Which clients: NAME=PATTERN, of what they say of themselves."),
        MetricsOption("metrics", "list", "", "Which measurements, by the beginnings of their names."),
    )
}


class ClientMetrics:
    """By the name of a subscription."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._configs: dict[str, dict[str, str]] = {}

    async def load(self) -> None:
        """Take back what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._configs[key.decode()] = _decode(value)

    def names(self) -> list[str]:
        """Of all subscriptions."""
        return sorted(self._configs)

    def get(self, name: str) -> Mapping[str, str]:
        """What was set for one."""
        return self._configs.get(name, {})

    async def configure(
        self, name: str, revise: Callable[[dict[str, str]], Mapping[str, str]], *, dry_run: bool = False
    ) -> None:
        """Replace what was set by what `revise` makes of it; without anything set it is gone. Raises InvalidClientMetrics."""
        configs = dict(revise(dict(self.get(name))))
        _check(configs)
        if dry_run:
            return
        await self._engine.alter((), [Mutation(SCOPE, name.encode(), _encode(configs) if configs else None)])
        if configs:
            self._configs[name] = configs
        else:
            self._configs.pop(name, None)


def _check(configs: Mapping[str, str]) -> None:
    for name, value in configs.items():
        if name not in METRICS_OPTIONS:
            raise InvalidClientMetrics(f"Unknown client metrics configuration: {name}")
        if name == "interval.ms" and not (
            value.isascii() and value.isdecimal() and INTERVAL_MS_MIN <= int(value) <= INTERVAL_MS_MAX
        ):
            raise InvalidClientMetrics(f"interval.ms must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX}")
        if name == "match":
            _check_match(value)


def _check_match(value: str) -> None:
    for selector in filter(None, map(str.strip, value.split(","))):
        name, separator, pattern = selector.partition("=")
        if not separator or name.strip() not in SELECTORS:
            raise InvalidClientMetrics(f"Illegal client matching pattern: {selector}")
        try:
            NamePattern.compile(pattern.strip())
        except InvalidNamePattern as error:
            raise InvalidClientMetrics(f"Illegal client matching pattern: {error}") from None
