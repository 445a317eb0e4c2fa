"""Where settings come from: a file, the environment, the command line. Each yields raw values under flat names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainstem.compiled import PURE_VARIABLE
from mainstem.server.settings import Kind, known_keys

PREFIX = "MAINSTEM_"
CONFIG_VARIABLE = "MAINSTEM_CONFIG"
CLIENT_PREFIX = "MAINSTEM_CLIENT_"
"""Variables of clients (`sdk/credentials.py`), which may run in the same environment."""


class Entry(NamedTuple):
    """A value as somebody wrote it."""

    key: str
    value: object
    origin: str
    """Where it was written, for people."""
    is_text: bool
    """Whether numbers and lists come spelled out, as in the environment and on the command line."""


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The command line."""

    config: str | None = None
    data_dir: str | None = None
    listen: Sequence[str] = ()
    advertise: Sequence[str] = ()
    assignments: Sequence[str] = ()


class Unreadable(Exception):
    """The source as a whole cannot be used."""


def read_file(path: Path) -> Iterator[Entry]:
    """The settings of a TOML file."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} is not TOML: {error}") from None
    return _flatten(tree, "", f"file {path}")


def _flatten(tree: Mapping[str, object], prefix: str, origin: str) -> Iterator[Entry]:
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, dict) and key not in known_keys():
            yield from _flatten(value, key + ".", origin)
        else:
            yield Entry(key, value, origin, is_text=False)


def read_environment(environment: Mapping[str, str]) -> Iterator[Entry]:
    """Every variable with our prefix; one that names no setting keeps its own name, to be refused by it."""
    keys = {key.variable: key for key in known_keys().values()}
    for variable, text in sorted(environment.items()):
        is_known = variable in (CONFIG_VARIABLE, PURE_VARIABLE) or variable.startswith(CLIENT_PREFIX)
        if is_known or not variable.startswith(PREFIX):
            continue
        key = keys.get(variable)
        value: object = text
        if key is not None and key.kind is Kind.LISTEN:
            value = [part.strip() for part in text.split(",")]
        yield Entry(key.name if key is not None else variable, value, f"environment {variable}", is_text=True)


def read_flags(flags: Flags) -> Iterator[Entry]:
    """The command line, in no order: what names one thing twice, other than `--listen`, is refused."""
    if flags.data_dir is not None:
        yield Entry("data_dir", flags.data_dir, "flag --data-dir", is_text=True)
    listen: dict[str, list[str]] = {}
    for name, value in _assignments("--listen", flags.listen):
        listen.setdefault(name, []).append(value)
    for name, values in listen.items():
        yield Entry(f"listen.{name}", values, "flag --listen", is_text=True)
    for name, value in _assignments("--advertise", flags.advertise):
        yield Entry(f"advertise.{name}", value, "flag --advertise", is_text=True)
    for name, value in _assignments("--set", flags.assignments):
        key = known_keys().get(name)
        many = key is not None and key.kind is Kind.LISTEN
        yield Entry(name, value.split(",") if many else value, "flag --set", is_text=True)


def _assignments(flag: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise Unreadable(f"{flag} {text}: expected NAME=VALUE")
        yield name.strip(), value.strip()
