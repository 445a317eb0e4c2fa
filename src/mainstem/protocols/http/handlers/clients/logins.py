"""Who asks: by a password, by a token, within the session of a browser, or nobody in particular where that is let in."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

from mainstem.broker.broker import Broker
from mainstem.broker.users.callers import ADMINISTRATOR, Caller, LoginRefused
from mainstem.broker.users.sessions import is_token
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.http.errors import Forbidden, HttpError, LoginNeeded
from mainstem.wire.http.messages import Request
from mainstem.wire.http.origins import READING

NAME = "http"
COOKIE = "mainstem_session"
TOKEN_HEADER = b"x-mainstem-token"
MONITORING = "monitoring"
GUARDED = ("/v1/", "/metrics", "/registry")
"""Paths below these are for who is let in. The others tell nothing but that a broker is here."""
SESSION_PATH = "/v1/session"
CONTENT_STEPS = frozenset({"records", "follow", "messages", "schedules", "recurrences", "batches", "trace"})
"""Paths with one of these steps show what is in messages."""
USERS_STEP = "users"

Tell: TypeAlias = "Callable[[Caller | HttpError], None]"


class Logins:
    """Finds out who asks, and what they may do."""

    def __init__(self, broker: Broker) -> None:
        self._door = broker.door
        self._sessions = broker.sessions

    def needs_login(self, path: str) -> bool:
        """Whether who asks matters."""
        return path.startswith(GUARDED) and path != SESSION_PATH

    def check_rights(self, caller: Caller, method: str, path: str) -> None:
        """Administrators may do everything; the tag `monitoring` reads what is no message and no user. Raises Forbidden."""
        tags = caller.tags
        if ADMINISTRATOR in tags:
            return
        steps = set(path.split("/"))
        if MONITORING in tags and method in READING and USERS_STEP not in steps and not steps & CONTENT_STEPS:
            return
        needed = ADMINISTRATOR if MONITORING in tags or method not in READING else f"{MONITORING} or {ADMINISTRATOR}"
        raise Forbidden(f"user {caller.name} has not the tag {needed}")

    def identify(self, request: Request, endpoints: Endpoints, tell: Tell) -> None:
        """Who it is, now or later."""
        scheme, _, proof = (request.header(b"authorization") or "").partition(" ")
        if scheme.lower() == "basic":
            self._identify_by_password(proof, endpoints, tell)
        elif scheme.lower() == "bearer":
            self._door.ask_token(NAME, proof.strip(), endpoints, lambda answer: tell(_told(answer)))
        elif scheme:
            tell(LoginNeeded(f"{scheme[:32]} is no way to log in here"))
        else:
            try:
                tell(self._identify_silent(request, endpoints))
            except HttpError as error:
                tell(error)

    def _identify_by_password(self, proof: str, endpoints: Endpoints, tell: Tell) -> None:
        try:
            plain = base64.b64decode(proof.strip(), validate=True)
            name, _, password = plain.partition(b":")
            user = name.decode()
        except (binascii.Error, UnicodeDecodeError):
            self._door.refuse(NAME, endpoints)
            tell(LoginNeeded("the Authorization header cannot be read"))
            return
        self._door.ask_password(NAME, user, password, endpoints, lambda answer: tell(_told(answer)))

    def _identify_silent(self, request: Request, endpoints: Endpoints) -> Caller:
        """By the session, if there is one that holds."""
        secret = cookie_of(request)
        session = self._sessions.find(secret) if secret else None
        if session is not None:
            if request.method not in READING:
                check_page(request, secret)
            return self._sessions.admit(session, endpoints.peer_host)
        try:
            return self._door.admit_anonymous(NAME, endpoints)
        except LoginRefused as refusal:
            raise LoginNeeded(str(refusal)) from None


def _told(answer: Caller | LoginRefused) -> Caller | HttpError:
    return LoginNeeded(str(answer)) if isinstance(answer, LoginRefused) else answer


def cookie_of(request: Request) -> str:
    """The secret of the session; empty where there is none."""
    for header, value in request.headers:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                name, _, secret = pair.strip().partition("=")
                if name == COOKIE:
                    return secret
    return ""


def check_page(request: Request, secret: str) -> None:
    """Whether our own page asks for a change: only it knows the token, and a browser says where it is from. Raises Forbidden."""
    origin = request.header(b"origin")
    if origin is None or urlsplit(origin).netloc.lower() != (request.header(b"host") or "").lower():
        raise Forbidden("within a session, changes need an Origin header with our own address")
    if not is_token(secret, request.header(TOKEN_HEADER) or ""):
        raise Forbidden("within a session, changes need the session's token in X-Mainstem-Token")
