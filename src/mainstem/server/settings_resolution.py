"""From what was written to what is in force: flag before environment before file before default.

Whatever is not known is refused by name, with the nearest name that is: a misspelt limit that silently keeps its
default is found in the worst moment. All problems are reported at once.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mainstem.server.registry import REGISTERED
from mainstem.server.settings import SECTIONS, Key, Kind, Limits, Node, Settings, known_keys, listeners
from mainstem.server.settings_sources import (
    CONFIG_VARIABLE,
    PREFIX,
    Entry,
    Flags,
    Unreadable,
    read_environment,
    read_file,
    read_flags,
)
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.transport.address import Address, InvalidAddress

OFF = "off"
GROUPED_DIGITS = re.compile("[+-]?[0-9]+(_[0-9]+)*")
HEADERS_ROOM_BYTES = 8 << 20
"""For what a message carries besides its body, here and there as what Kafka clients read."""


class SettingsRefused(Exception):
    """Something that was set cannot be used; one line per problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Setting(NamedTuple):
    """A value in force and where it was written."""

    key: str
    value: Any
    origin: str


class Resolved(NamedTuple):
    """The settings as a tree, and the same as a list for people."""

    settings: Settings
    listed: list[Setting]


def resolve(flags: Flags, environment: Mapping[str, str]) -> Resolved:
    """Read every source. Raises SettingsRefused."""
    problems: list[str] = []
    config = flags.config or environment.get(CONFIG_VARIABLE)
    values = {key.name: Setting(key.name, key.default, "default") for key in known_keys().values()}
    try:
        sources = [read_environment(environment), read_flags(flags)]
        if config is not None:
            sources.insert(0, read_file(Path(config)))
        for source in sources:
            _apply(source, values, problems)
    except Unreadable as error:
        problems.append(str(error))
    if not problems and not any(values[f"listen.{name}"].value for name in listeners()):
        problems.append("every listener is off: nobody could connect")
    if problems:
        raise SettingsRefused(problems)
    try:
        return Resolved(_build(values), [values[name] for name in known_keys()])
    except ValueError as error:  # values that cannot be, or cannot be together
        raise SettingsRefused([str(error)]) from None


def _apply(source: Iterable[Entry], values: dict[str, Setting], problems: list[str]) -> None:
    """Put what one source says over what was said before."""
    seen: set[str] = set()
    for entry in source:
        key = known_keys().get(entry.key)
        if key is None:
            problems.append(_describe_unknown(entry))
            continue
        if entry.key in seen:
            problems.append(f"{entry.key} is set twice ({entry.origin})")
            continue
        seen.add(entry.key)
        try:
            values[key.name] = Setting(key.name, _understand(key, entry), entry.origin)
        except (msgspec.ValidationError, InvalidAddress) as error:
            choices = typing.get_args(key.type) if typing.get_origin(key.type) is typing.Literal else ()
            hint = f"; one of {', '.join(choices)}" if choices else ""
            problems.append(f"{entry.key} ({entry.origin}): {error}{hint}")


def _describe_unknown(entry: Entry) -> str:
    section, _, name = entry.key.partition(".")
    known = list(known_keys())
    written = entry.key
    if entry.key.startswith(PREFIX):
        known = [key.variable for key in known_keys().values()]
    elif section in {Kind.LISTEN.value, Kind.ADVERTISE.value}:
        written, known = name, listeners()
    what = "listener" if written == name else "setting"
    near = difflib.get_close_matches(written, known, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]!r}?"
    else:
        hint = f"known: {', '.join(known)}" if what == "listener" else "see `mainstem config show` for all"
    return f"unknown {what} {written!r} ({entry.origin}); {hint}"


def _understand(key: Key, entry: Entry) -> object:
    if key.kind is Kind.LISTEN:
        return _understand_listen(entry.value)
    if key.kind is Kind.ADVERTISE:
        address = Address.parse(msgspec.convert(entry.value, str))
        if address.is_wildcard or address.port == 0:
            raise InvalidAddress(f"{address} cannot be advertised: no client could connect to it")
        return address
    value = entry.value
    if entry.is_text and isinstance(value, str) and typing.get_origin(key.type) is tuple:
        value = [part.strip() for part in value.split(",")] if value else []
    if isinstance(value, str) and entry.is_text and type(key.default) is int and GROUPED_DIGITS.fullmatch(value):
        value = value.replace("_", "")  # as TOML and our documents write large numbers
    return msgspec.convert(value, key.type, strict=not entry.is_text)


def _understand_listen(value: object) -> tuple[Address, ...]:
    texts = [value] if isinstance(value, str) else msgspec.convert(value, list[str])
    if OFF in texts:
        if len(texts) > 1:
            raise InvalidAddress(f"both {OFF} and an address")
        return ()
    if not texts:
        raise InvalidAddress(f"no address; to switch it off, say {OFF!r}")
    return tuple(map(Address.parse, texts))


def _build(values: Mapping[str, Setting]) -> Settings:
    def section(name: str, **given: object) -> Any:
        prefix = f"{name}." if name else ""
        fields = {field.name: prefix + field.name for field in msgspec.structs.fields(SECTIONS[name])}
        found = {field: values[key].value for field, key in fields.items() if key in values}
        try:
            return SECTIONS[name](**given, **found)
        except ValueError as error:
            raise ValueError(f"{prefix}{error}") from None

    node: Node = section("")
    limits: Limits = section("limits")
    storage: EngineSettings = section("storage", data_directory=str(Path(node.data_dir).expanduser().absolute()))
    cluster: ClusterSettings = section("cluster")
    if cluster.is_on and (storage.wal_directory or storage.run_directories):
        raise ValueError("in a cluster the log is in the shared store: wal_directory and run_directories have no use")
    _check_room(values)
    return Settings(
        node=node,
        limits=limits,
        tls=section("tls"),
        proxy=section("proxy"),
        security=section("security"),
        storage=storage,
        cluster=cluster,
        stages=section("stages"),
        devices=section("devices"),
        queues=section("queues"),
        trace=section("trace"),
        users=section("users"),
        tokens=section("tokens"),
        pipelines=section("pipelines"),
        protocols={name: section(name) for name in REGISTERED},
        listen={name: values[f"listen.{name}"].value for name in listeners()},
        advertise={name: address for name in listeners() if (address := values[f"advertise.{name}"].value) is not None},
    )


def _check_room(values: Mapping[str, Setting]) -> None:
    """Whether the largest message fits into a commit: otherwise every publisher of one would be refused for ever."""
    message, commit = values["amqp.message_bytes_max"].value, values["storage.commit_bytes_max"].value
    assert isinstance(message, int)
    assert isinstance(commit, int)
    if (values["listen.amqp"].value or values["listen.amqp+tls"].value) and message + HEADERS_ROOM_BYTES > commit:
        raise ValueError(
            f"amqp.message_bytes_max is {message}: such a message, with its headers, needs a storage.commit_bytes_max "
            f"of {message + HEADERS_ROOM_BYTES}, which is {commit}"
        )
