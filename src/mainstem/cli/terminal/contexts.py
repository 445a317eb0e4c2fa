"""Contexts: brokers by name, with what is needed to reach them. Kept in a file that only its owner can read."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mainstem.cli.terminal.exits import WRONG_USE, fail

ADDRESS_DEFAULT = "127.0.0.1:8282"
FILE_VARIABLE = "MAINSTEM_CONTEXTS"
FIELDS = ("address", "user", "password_file", "password_command")
COMMAND_TIMEOUT_S = 30


class Context(NamedTuple):
    """A broker, and who one is there."""

    name: str
    address: str
    user: str = ""
    password_file: str = ""
    password_command: str = ""

    def password(self) -> str:
        """From its file or command; empty: none. Ends the command when that fails."""
        try:
            if self.password_file:
                return Path(self.password_file).expanduser().read_text(encoding="utf-8").strip()
            if self.password_command:
                ran = subprocess.run(  # noqa: S602 - the owner of the file wrote it
                    self.password_command,
                    shell=True,
                    capture_output=True,
                    text=True,
                    timeout=COMMAND_TIMEOUT_S,
                    check=True,
                )
                return ran.stdout.strip()
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
            fail([f"the password of context {self.name} cannot be had: {error}"], WRONG_USE)
        return ""


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where contexts are kept."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "mainstem" / "contexts.toml"


class Contexts(NamedTuple):
    """All of them, and the one in use."""

    current: str
    known: dict[str, Context]


def read_contexts() -> Contexts:
    """As stored; none where there is no file. Ends the command where it cannot be read."""
    path = contexts_file()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts("", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fail([f"{path} cannot be read: {error}"], WRONG_USE)
    known: dict[str, Context] = {}
    for name, fields in content.get("contexts", {}).items():
        wrong = sorted(set(fields) - set(FIELDS)) if isinstance(fields, dict) else ["fields"]
        if wrong or not isinstance(fields.get("address"), str):
            fail([f"{path}: context {name} needs an address, and has: {', '.join(wrong) or 'none'}"], WRONG_USE)
        known[name] = Context(name, **fields)
    return Contexts(str(content.get("current", "")), known)


def write_contexts(contexts: Contexts) -> None:
    """Store all, for their owner alone."""
    path = contexts_file()
    lines = [f"current = {_text(contexts.current)}"]
    for name, context in sorted(contexts.known.items()):
        lines += ["", f"[contexts.{_text(name)}]"]
        lines += [f"{field} = {_text(value)}" for field in FIELDS if (value := getattr(context, field))]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    new.replace(path)


def choose(address: str | None, name: str | None, environment: Mapping[str, str] = os.environ) -> Context:
    """The broker that is meant: by option, then environment, then context, then this machine."""
    address = address or environment.get("MAINSTEM_ADDRESS")
    user = environment.get("MAINSTEM_USER", "")
    password_file = environment.get("MAINSTEM_PASSWORD_FILE", "")
    if address and not name:
        return Context("", address, user, password_file)
    contexts = read_contexts()
    name = name or environment.get("MAINSTEM_CONTEXT") or contexts.current
    if not name:
        return Context("", ADDRESS_DEFAULT, user, password_file)
    found = contexts.known.get(name)
    if found is None:
        fail([f"there is no context {name}: `mainstem context list` shows them"], WRONG_USE)
    return found._replace(address=address or found.address)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
