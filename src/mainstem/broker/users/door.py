"""The door: how clients of every protocol are let in.

A protocol asks with what its client has said: a name and a password, the messages of SCRAM, a token, the certificate of its
connection, or nothing. It gets a caller, or LoginRefused. Wrong proofs are slowed, counted and logged here (`logins`), right
passwords are remembered for a while, so that a thousand clients that come again at once cost the work of one.

    user                 lets in whom                                           where
    of the settings      that protocol's clients, with every right              anywhere
    made by somebody     everybody's clients, with the rights that were given   anywhere
    guest                AMQP's and management's, with every right              this machine, or where the settings say so
    anonymous            who says nothing, with every right                     this machine, or where the settings say so
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hmac
import ipaddress
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mainstem.broker.clock import Clock
from mainstem.broker.users.access import ANONYMOUS, GUEST, Access
from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.broker.users.delegation import DelegationTokens
from mainstem.broker.users.logins import Logins
from mainstem.broker.users.passwords import Passwords
from mainstem.broker.users.settings import UserSettings
from mainstem.broker.users.tokens import Tokens, TokenSettings, looks_like_token
from mainstem.coordination.administration.entries import User
from mainstem.model.endpoints import Endpoints
from mainstem.wire.scram import TOOLS_ITERATIONS, MalformedScram, ScramExchange, Verifier, WrongCredentials, derive
from mainstem.wire.scram import invented as invent

log = logging.getLogger(__name__)

REMEMBERED_S = 60.0
"""For so long a right password is not derived again."""
REMEMBERED_MAX = 10_000
FAILED = "the name or the password is wrong"

Told: TypeAlias = Callable[["Caller | LoginRefused"], None]
"""Is told who was let in, or that nobody was."""


class Entrance(NamedTuple):
    """How the settings of a protocol let its clients in, beside the users that were made."""

    superuser: str = ""
    """A name with every right, which the settings give; empty: none."""
    password: bytes = b""
    is_wide: bool = False
    """Whether `anonymous` and `guest` are let in from anywhere, and not from this machine alone."""
    needs_proof: bool = False
    """Whether `anonymous` is not let in at all."""


class Remembered(NamedTuple):
    """A password that was right."""

    user: User | None
    """As it was then: one that was changed since is asked again. None: the one of the settings."""
    until: float


class Door:
    """Lets clients of all protocols in."""

    def __init__(
        self,
        access: Access,
        logins: Logins,
        clock: Clock,
        delegation: DelegationTokens,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._access = access
        self.delegation = delegation
        self._logins = logins
        self._clock = clock
        self._random = random
        self._entrances: dict[str, Entrance] = {}
        self.tokens = Tokens(clock, access.passwords.work)
        self._tasks: set[asyncio.Task[None]] = set()
        self._memory_key = random(32)
        self._remembered: OrderedDict[bytes, Remembered] = OrderedDict()

    @property
    def passwords(self) -> Passwords:
        """What checks them."""
        return self._access.passwords

    def govern(self, users: UserSettings, tokens: TokenSettings) -> None:
        """These settings hold. Raises ValueError."""
        self.passwords.iterations = users.scram_iterations
        self.tokens.govern(tokens)

    def open(self, protocol: str, entrance: Entrance) -> None:
        """A protocol says how its settings let clients in."""
        self._entrances[protocol] = entrance

    def entrance(self, protocol: str) -> Entrance:
        """What it said."""
        return self._entrances.get(protocol, Entrance())

    # Nothing

    def may_be_anonymous(self, protocol: str, endpoints: Endpoints) -> bool:
        """Whether a client may come in that does not say who it is."""
        entrance = self.entrance(protocol)
        if entrance.needs_proof or not (entrance.is_wide or is_here(endpoints.peer_host)):
            return False
        return self._access.has_anonymous

    def admit_anonymous(self, protocol: str, endpoints: Endpoints) -> Caller:
        """Who says nothing. Raises LoginRefused."""
        if not self.may_be_anonymous(protocol, endpoints):
            raise LoginRefused("a login is needed")
        return self._access.admit(ANONYMOUS, endpoints.peer_host, is_superuser=True)

    def admit_unnamed(self, protocol: str, endpoints: Endpoints) -> Caller:
        """Who asks for a login without a name, as RabbitMQ has it: it is `guest`. Raises LoginRefused."""
        user = self._access.find(GUEST)
        if user is None or user.is_disabled or not self.may_be_anonymous(protocol, endpoints):
            raise LoginRefused("a login is needed")
        return self._access.admit(GUEST, endpoints.peer_host)

    # Name and password

    async def log_in_with_password(self, protocol: str, name: str, password: bytes, endpoints: Endpoints) -> Caller:
        """Who has this name and this password. Raises LoginRefused."""
        told: asyncio.Future[Caller | LoginRefused] = asyncio.get_running_loop().create_future()

        def tell(answer: Caller | LoginRefused) -> None:
            if not told.done():
                told.set_result(answer)

        self.ask_password(protocol, name, password, endpoints, tell)
        answer = await told
        if isinstance(answer, LoginRefused):
            raise answer
        return answer

    def ask_password(self, protocol: str, name: str, password: bytes, endpoints: Endpoints, tell: Told) -> None:
        """The same for who does not await: `tell` is called at once or later. A token is taken for a password, too."""
        if self.tokens.are_taken and looks_like_token(password):
            self.ask_token(protocol, password.decode("ascii", "replace"), endpoints, tell)
            return
        host = endpoints.peer_host
        digest = hmac.digest(self._memory_key, b"\0".join((protocol.encode(), name.encode(), password)), "sha256")

        def proven(is_right: bool) -> None:
            tell(self._admit_proven(protocol, name, endpoints) if is_right else LoginRefused(FAILED))

        if self._is_remembered(digest, protocol, name) and self._logins.is_free(name, host):
            proven(True)
            return
        check = functools.partial(self._check_password, protocol, name, password, digest)
        self._logins.prove(protocol, name, host, check, proven)

    def _check_password(self, protocol: str, name: str, password: bytes, digest: bytes) -> bool | asyncio.Future[bool]:
        if self._is_remembered(digest, protocol, name):
            return True
        user = self._user_of(protocol, name)
        if user is not None and self._access.is_first(user):
            # Everybody knows this password: nothing is given away by the time.
            return self._access.is_first_password(user, password)
        entrance = self.entrance(protocol)
        if user is None and entrance.superuser and name == entrance.superuser:
            answer = self.passwords.check_configured(entrance.password, password)
        else:
            answer = self.passwords.check(user, password)

        def keep(answer: asyncio.Future[bool]) -> None:
            if not answer.cancelled() and answer.exception() is None and answer.result():
                self._remember(digest, user)
                if user is not None and not user.verifiers:
                    self._access.keep_verifiers_later(user, password)

        answer.add_done_callback(keep)
        return answer

    def _user_of(self, protocol: str, name: str) -> User | None:
        """The user that was made; None where the settings have one of this name, or nobody has."""
        return None if name == self.entrance(protocol).superuser else self._access.find(name)

    def _is_remembered(self, digest: bytes, protocol: str, name: str) -> bool:
        found = self._remembered.get(digest)
        if found is None:
            return False
        if found.until < self._clock.monotonic() or found.user is not self._user_of(protocol, name):
            del self._remembered[digest]
            return False
        return True

    def _remember(self, digest: bytes, user: User | None) -> None:
        self._remembered[digest] = Remembered(user, self._clock.monotonic() + REMEMBERED_S)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    def _admit_proven(self, protocol: str, name: str, endpoints: Endpoints) -> Caller | LoginRefused:
        entrance = self.entrance(protocol)
        if name == GUEST and name != entrance.superuser and not (entrance.is_wide or is_here(endpoints.peer_host)):
            log.warning("user '%s' can only connect via localhost", name)
            return LoginRefused("User can only log in via localhost")
        is_superuser = bool(entrance.superuser) and name == entrance.superuser
        return self._access.admit(name, endpoints.peer_host, is_superuser=is_superuser)

    # Tokens and certificates

    async def log_in_with_token(self, protocol: str, token: str, endpoints: Endpoints) -> Caller:
        """Who has this token: the caller ends with it. Raises LoginRefused."""
        try:
            proof = await self.tokens.prove(token)
        except LoginRefused:
            self._logins.refused(protocol, "of a token", endpoints.peer_host)
            raise
        caller = self._admit_vouched(protocol, proof.user, endpoints)
        caller.roles, caller.expires_ms = proof.roles, proof.expires_ms
        return caller

    def ask_token(self, protocol: str, token: str, endpoints: Endpoints, tell: Told) -> None:
        """The same for who does not await."""

        async def ask() -> None:
            try:
                tell(await self.log_in_with_token(protocol, token, endpoints))
            except LoginRefused as refusal:
                tell(refusal)

        task = asyncio.get_running_loop().create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def log_in_with_certificate(self, protocol: str, endpoints: Endpoints) -> Caller:
        """Who the certificate of the connection names. Raises LoginRefused."""
        user = "" if endpoints.certificate is None else endpoints.certificate.user
        if not user:
            raise LoginRefused("there is no certificate that names a user")
        return self._admit_vouched(protocol, user, endpoints)

    def _admit_vouched(self, protocol: str, name: str, endpoints: Endpoints) -> Caller:
        """Others vouch for the name. It may be one that is not among the users: then nothing was given to it."""
        user = self._access.find(name)
        is_built_in = name == ANONYMOUS or (user is not None and self._access.is_first(user))
        if is_built_in or (user is not None and user.is_disabled):
            self._logins.refused(protocol, name, endpoints.peer_host)
            raise LoginRefused(FAILED)
        return self._access.admit(name, endpoints.peer_host)

    # SCRAM

    def begin_scram(self, protocol: str, mechanism: str) -> ScramExchange:
        """A new exchange: its first message is answered by itself, the second one by `finish_scram`."""
        nonce = base64.b64encode(self._random(18)).decode()
        return ScramExchange(mechanism, functools.partial(self._find_verifier, protocol, mechanism), nonce)

    def _find_verifier(self, protocol: str, mechanism: str, name: str, is_token: bool) -> Verifier:
        entrance = self.entrance(protocol)
        secret, iterations = self._access.strangers_secret, self.passwords.iterations
        if not is_token and entrance.superuser and name == entrance.superuser:
            return _configured_verifier(entrance.password, secret, mechanism, name, iterations)
        if is_token:
            return self.delegation.verifier(name, mechanism) or invent(secret, mechanism, name, TOOLS_ITERATIONS)
        user = self._access.find(name)
        found = None if user is None or user.is_disabled else user.verifiers.get(mechanism)
        return found or invent(secret, mechanism, name, iterations)

    def finish_scram(
        self,
        protocol: str,
        exchange: ScramExchange,
        message: bytes,
        endpoints: Endpoints,
        tell: Callable[[bytes, Caller | LoginRefused], None],
    ) -> None:
        """The second message: `tell` is given the last answer to the client, and who it is."""
        said = b""

        def check() -> bool:
            nonlocal said
            try:
                said, _ = exchange.answer(message)
            except (WrongCredentials, MalformedScram):
                return False
            return True

        def admit() -> Caller | LoginRefused:
            if exchange.is_token:
                return self._admit_delegate(protocol, exchange.user, endpoints)
            return self._admit_proven(protocol, exchange.user, endpoints)

        def proven(is_right: bool) -> None:
            tell(said, admit() if is_right else LoginRefused(FAILED))

        self._logins.prove(protocol, exchange.user, endpoints.peer_host, check, proven)

    def _admit_delegate(self, protocol: str, token: str, endpoints: Endpoints) -> Caller | LoginRefused:
        """Who has proven to have a delegation token acts as its owner."""
        found = self.delegation.find(token)
        user = None if found is None else self._access.find(found.owner)
        if found is None or (user is not None and user.is_disabled):
            return LoginRefused(FAILED)
        caller = self._admit_proven(protocol, found.owner, endpoints)
        if isinstance(caller, Caller):
            caller.is_delegated, caller.expires_ms = True, found.expires_ms
        return caller

    def refuse(self, protocol: str, endpoints: Endpoints) -> LoginRefused:
        """What the client said is no proof at all: it is counted as a wrong one."""
        self._logins.failed(protocol, "", endpoints.peer_host)
        return LoginRefused(FAILED)

    def close(self) -> None:
        """Look at nothing more."""
        self.passwords.close()


@functools.lru_cache(maxsize=64)
def _configured_verifier(password: bytes, secret: bytes, mechanism: str, name: str, iterations: int) -> Verifier:
    like = invent(secret, mechanism, name, iterations)
    return derive(password, mechanism, like.salt, like.iterations)


@functools.lru_cache(maxsize=4096)
def is_here(host: str) -> bool:
    """Whether a peer is on this machine; one without an address is."""
    if not host:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
