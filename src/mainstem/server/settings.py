"""All that can be set, as one typed tree, and the flat names under which it is set.

A setting has one name in every place: `limits.idle_timeout_ms` in a file (a table `limits`) and with `--set`, and
`MAINSTEM_LIMITS_IDLE_TIMEOUT_MS` in the environment. The names come from the fields of the structs: a field that is
added there is a setting, and a test asks for its documentation. What cannot be set, or has no effect, is not here.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, Literal, NamedTuple

import msgspec

from mainstem.broker.devices.limits import DeviceLimits
from mainstem.broker.intake import UNWRITTEN_BYTES_MAX
from mainstem.broker.queues.settings import QueueSettings
from mainstem.broker.staging.stages import StageRules
from mainstem.broker.trace.chronicle import TraceSettings
from mainstem.broker.users.settings import UserSettings
from mainstem.broker.users.tokens import TokenSettings
from mainstem.model.bounds import Positive
from mainstem.model.endpoints import TLS_SUFFIX
from mainstem.server.pipeline_worker import PipelineSettings
from mainstem.server.registry import REGISTERED
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.transport.address import Address
from mainstem.transport.tls_credentials import TlsSettings

DEFAULT_HOST = "127.0.0.1"
_IN_VARIABLES = str.maketrans(".-+", "___")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the process as a whole."""

    data_dir: str = "mainstem-data"
    """Where everything is kept; made when missing."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is worth a line on standard error."""
    maintenance_interval_ms: Positive = 1_000
    """How often storage is asked to merge, expire and reclaim what is due."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may cost."""

    connections_max: Positive = 10_000
    """Open connections per listener; one more is closed at once."""
    idle_timeout_ms: Positive = 600_000
    """A connection on which nothing moved for so long, and to which nothing is owed, is closed."""
    drain_timeout_ms: Positive = 10_000
    """At the end, how long requests in flight may take before their connections are cut."""
    unwritten_bytes_max: Positive = UNWRITTEN_BYTES_MAX
    """Published bytes that are not on disk yet, of all connections; above it, one that publishes is not read."""
    write_buffer_bytes_max: Positive = 4 << 20
    """Bytes that may wait for a peer to read them before we stop reading from it."""


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Proxies in front that say who their clients are, by the PROXY protocol."""

    listeners: tuple[str, ...] = ()
    """Listeners that have such proxies in front, by name."""
    trusted: tuple[str, ...] = ()
    """Addresses and networks of the proxies; from these, and only these, the header is expected and believed."""


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all listeners."""

    without_tls: bool = False
    """Whether listeners beyond this machine may speak clear text."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in force."""

    node: Node
    limits: Limits
    tls: TlsSettings
    proxy: ProxySettings
    security: SecuritySettings
    storage: EngineSettings
    cluster: ClusterSettings
    stages: StageRules
    devices: DeviceLimits
    queues: QueueSettings
    trace: TraceSettings
    users: UserSettings
    tokens: TokenSettings
    pipelines: PipelineSettings
    protocols: dict[str, msgspec.Struct]
    """The section of each registered protocol, by its name."""
    listen: dict[str, tuple[Address, ...]]
    """Where each listener is, by its name: that of a protocol, or the same with `+tls`; nowhere when switched off."""
    advertise: dict[str, Address]
    """What clients are told instead, where that differs."""


class Kind(enum.Enum):
    """How the value of a key is understood."""

    FIELD = "field"
    LISTEN = "listen"
    ADVERTISE = "advertise"


class Key(NamedTuple):
    """One setting by its flat name."""

    name: str
    kind: Kind
    type: Any
    default: object

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "MAINSTEM_" + self.name.upper().translate(_IN_VARIABLES)


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": Node,
    "limits": Limits,
    "tls": TlsSettings,
    "proxy": ProxySettings,
    "security": SecuritySettings,
    "storage": EngineSettings,
    "cluster": ClusterSettings,
    "stages": StageRules,
    "devices": DeviceLimits,
    "queues": QueueSettings,
    "trace": TraceSettings,
    "users": UserSettings,
    "tokens": TokenSettings,
    "pipelines": PipelineSettings,
    **{name: registration.settings for name, registration in REGISTERED.items()},
}
"""Structs by the prefix of their keys. A required field is not a setting: the server itself gives its value."""


def listeners() -> list[str]:
    """Names of all listeners that there can be."""
    return [name + suffix for name in REGISTERED for suffix in ("", TLS_SUFFIX)]


@functools.cache
def known_keys() -> dict[str, Key]:
    """Every setting, by name."""
    keys = []
    for section, struct in SECTIONS.items():
        for field in msgspec.structs.fields(struct):
            if not field.required:
                name = f"{section}.{field.name}" if section else field.name
                default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
                keys.append(Key(name, Kind.FIELD, field.type, default))
    for name, registration in REGISTERED.items():
        default = tuple(Address(DEFAULT_HOST, port) for port in registration.default_ports)
        keys.append(Key(f"listen.{name}", Kind.LISTEN, tuple[Address, ...], default))
        # Listening for TLS is asked for: it needs a certificate, which only the operator has.
        keys.append(Key(f"listen.{name}{TLS_SUFFIX}", Kind.LISTEN, tuple[Address, ...], ()))
        keys += [Key(f"advertise.{name}{end}", Kind.ADVERTISE, Address | None, None) for end in ("", TLS_SUFFIX)]
    return {key.name: key for key in keys}
