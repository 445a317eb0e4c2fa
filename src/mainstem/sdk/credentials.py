"""Who we are, to a broker that asks. From the environment alone, so that no plan, page or command line shows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

USER_VARIABLE = "MAINSTEM_CLIENT_USER"
PASSWORD_VARIABLE = "MAINSTEM_CLIENT_PASSWORD"  # noqa: S105
PASSWORD_FILE_VARIABLE = "MAINSTEM_CLIENT_PASSWORD_FILE"  # noqa: S105
MECHANISM_VARIABLE = "MAINSTEM_CLIENT_MECHANISM"
VARIABLES = (USER_VARIABLE, PASSWORD_VARIABLE, PASSWORD_FILE_VARIABLE, MECHANISM_VARIABLE)

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
"""The first is the default: it does not show the password to eavesdroppers."""


class Credentials(NamedTuple):
    """A user, a password and how to prove it."""

    user: str
    password: str
    mechanism: str = MECHANISMS[0]

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ..., {self.mechanism!r})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Credentials | None:
        """What the environment says, or None if it names no user."""
        given = os.environ if environment is None else environment
        user = given.get(USER_VARIABLE)
        if not user:
            return None
        password = given.get(PASSWORD_VARIABLE)
        if password is None and (file := given.get(PASSWORD_FILE_VARIABLE)):
            password = Path(file).read_text(encoding="utf-8").strip()
        mechanism = given.get(MECHANISM_VARIABLE, MECHANISMS[0])
        if mechanism not in MECHANISMS:
            raise ValueError(f"{MECHANISM_VARIABLE} is {mechanism!r}; it can be {', '.join(MECHANISMS)}.")
        return cls(user, password or "", mechanism)
