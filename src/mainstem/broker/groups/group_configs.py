"""What is set for single groups, whether or not there is such a group yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mainstem.coordination.groups.group_config import (
    GROUP_OPTIONS,
    SCOPE,
    SHARE_POLICY,
    STREAMS_FIELDS,
    GroupOption,
    ShareRules,
    beat_rules,
    check_group_config,
    read_rules,
    streams_rules,
)
from mainstem.coordination.groups.heartbeats import BeatRules
from mainstem.coordination.groups.streams.heartbeats import StreamsRules
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.storage.contract import Engine, Mutation

__all__ = ["GROUP_OPTIONS", "BeatRules", "GroupConfigs", "GroupOption"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, str]).decode


class GroupConfigs:
    """By group."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._configs: dict[str, dict[str, str]] = {}
        self._rules: dict[str, ShareRules] = {}
        self._consumer = BeatRules(members_max=10_000)
        self._share = BeatRules(members_max=200)
        self._streams = StreamsRules()
        self._policy = SHARE_POLICY
        self._default_rules = ShareRules()

    def govern(self, consumer: BeatRules, share: BeatRules, policy: DeliveryPolicy, streams: StreamsRules) -> None:
        """Set the rules of groups for which nothing else was set."""
        self._consumer, self._share, self._policy, self._streams = consumer, share, policy, streams
        self._default_rules = read_rules({}, policy)
        self._rules = {name: read_rules(configs, policy) for name, configs in self._configs.items()}

    def options(self) -> Mapping[str, GroupOption]:
        """What can be set, with what holds where nothing was."""
        governed = {
            "consumer.heartbeat.interval.ms": self._consumer.heartbeat_interval_ms,
            "consumer.session.timeout.ms": self._consumer.session_timeout_ms,
            "share.delivery.count.limit": self._policy.deliveries_max,
            "share.heartbeat.interval.ms": self._share.heartbeat_interval_ms,
            "share.partition.max.record.locks": self._policy.leases_max,
            "share.record.lock.duration.ms": self._policy.lease_ms,
            "share.session.timeout.ms": self._share.session_timeout_ms,
        } | {name: getattr(self._streams, field) for name, field in STREAMS_FIELDS.items()}
        return GROUP_OPTIONS | {
            name: GROUP_OPTIONS[name]._replace(default=str(value)) for name, value in governed.items()
        }

    async def load(self) -> None:
        """Take back what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._replay(key.decode(), _decode(value))

    def names(self) -> list[str]:
        """Groups for which something was set."""
        return sorted(name for name, configs in self._configs.items() if configs)

    def get(self, name: str) -> Mapping[str, str]:
        """What was set for a group."""
        return self._configs.get(name, {})

    def rules(self, name: str) -> ShareRules:
        """What holds for a group."""
        return self._rules.get(name, self._default_rules)

    def consumer_rules(self, name: str) -> BeatRules:
        """What holds for members of a directed group."""
        return beat_rules(self.get(name), "consumer", self._consumer)

    def share_rules(self, name: str) -> BeatRules:
        """What holds for members of a share group."""
        return beat_rules(self.get(name), "share", self._share)

    def streams_rules(self, name: str) -> StreamsRules:
        """What holds for members of a streams group."""
        return streams_rules(self.get(name), self._streams)

    async def configure(
        self, name: str, revise: Callable[[dict[str, str]], Mapping[str, str]], *, dry_run: bool = False
    ) -> None:
        """Replace what was set by what `revise` makes of it. Raises InvalidGroupConfig."""
        configs = dict(revise(dict(self.get(name))))
        check_group_config(configs)
        if not dry_run:
            await self._engine.alter((), [Mutation(SCOPE, name.encode(), _encode(configs) if configs else None)])
            self._replay(name, configs)

    def _replay(self, name: str, configs: dict[str, str]) -> None:
        self._configs[name] = configs
        self._rules[name] = read_rules(configs, self._policy)
