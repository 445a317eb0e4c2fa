"""Users and sessions as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.administration import User
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, After, Limit

NAME_BYTES_MAX = 255
PASSWORD_CHARACTERS_MAX = 1_024
TOKEN_CHARACTERS_MAX = 16 << 10
ROLES_MAX = 100

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Password: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=PASSWORD_CHARACTERS_MAX)]
Token: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TOKEN_CHARACTERS_MAX)]
Role: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Roles: TypeAlias = Annotated[list[Role], msgspec.Meta(max_length=ROLES_MAX)]


class SessionWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who wants to log in: by name and password, or by a token."""

    user: Name | None = None
    password: Password | None = None
    token: Token | None = None


class BegunSession(msgspec.Struct, frozen=True):
    """Somebody has logged in."""

    user: str
    token: str
    """To be said in `X-Mainstem-Token` with every change."""
    expires_ms: int


class SessionDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks."""

    user: str
    needed: bool
    """Whether nothing is answered without a login."""
    token: str | None = None
    expires_ms: int | None = None


class UserPath(msgspec.Struct, frozen=True):
    """Which user."""

    name: Name


class UsersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which users."""

    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class UserDocument(msgspec.Struct, frozen=True):
    """One user."""

    name: str
    roles: list[str]
    """Tags, as RabbitMQ has them: administrator, monitoring, management, policymaker, impersonator, and any other."""
    limits: dict[str, int]
    disabled: bool
    proofs: list[str]
    """What can prove the user: `password`, and the mechanisms of SCRAM."""
    sessions: int
    """Of browsers, that hold."""


class UserPage(msgspec.Struct, frozen=True):
    """Some of them."""

    users: list[UserDocument]
    next: str | None


class UserWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to be made."""

    name: Name
    password: Password | None = None
    roles: Roles = []
    limits: dict[str, int] = {}
    disabled: bool = False


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different; what is not said stays."""

    password: Password | UnsetType | None = UNSET
    """None: no password is right any more."""
    roles: Roles | UnsetType = UNSET
    limits: dict[str, int] | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


def describe_user(user: User, sessions: int) -> UserDocument:
    """As it is shown: without anything by which somebody could log in."""
    proofs = ["password"] if user.has_password else []
    return UserDocument(
        user.name, list(user.tags), dict(user.limits), user.is_disabled, [*proofs, *sorted(user.verifiers)], sessions
    )
