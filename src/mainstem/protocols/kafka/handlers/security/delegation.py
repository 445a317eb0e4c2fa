"""Delegation tokens: made, renewed, ended and shown (KIP-48, KIP-373)."""

from __future__ import annotations

import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.users.callers import Caller
from mainstem.broker.users.delegation import DelegationToken
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.security.authentication import Authentication
from mainstem.protocols.kafka.session.machine import ANONYMOUS
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode

USER = "User"
KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 4_096
RENEWERS_MAX = 100


def read_key(settings: KafkaSettings) -> bytes:
    """The key from its file; empty: there is none. Raises ValueError."""
    if settings.delegation_key_file is None:
        return b""
    path = Path(settings.delegation_key_file)
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            key = file.read(KEY_BYTES_MAX + 1).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"kafka.delegation_key_file cannot be read: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ValueError(f"kafka.delegation_key_file can be read by others: chmod 600 {path}")
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"kafka.delegation_key_file must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")
    return key


class DelegationHandlers:
    """CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._tokens = broker.delegation
        self._clock = broker.clock
        self._expiry_ms = settings.delegation_token_expiry_ms
        self._lifetime_ms = settings.delegation_token_max_lifetime_ms
        self._tokens.govern(read_key(settings))

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.CREATE_DELEGATION_TOKEN: Served(self.create, 1, 3),
            ApiKey.RENEW_DELEGATION_TOKEN: Served(self.renew, 1, 2),
            ApiKey.EXPIRE_DELEGATION_TOKEN: Served(self.expire, 1, 2),
            ApiKey.DESCRIBE_DELEGATION_TOKEN: Served(self.describe, 1, 3),
        }

    def create(self, call: Call) -> Body | Coroutine[Any, Any, Body]:
        """For the client itself, or by an administrator for another user."""
        caller = self._caller(call)
        if isinstance(caller, ErrorCode):
            return {"error_code": caller}
        owner_type, owner = call.body.owner_principal_type or USER, call.body.owner_principal_name or caller.name
        renewers = [renewer.principal_name for renewer in call.body.renewers]
        types = {owner_type, *(renewer.principal_type for renewer in call.body.renewers)}
        if types != {USER} or len(renewers) > RENEWERS_MAX:
            return {"error_code": ErrorCode.INVALID_PRINCIPAL_TYPE}
        if owner != caller.name and not caller.is_administrator:
            return {"error_code": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED}
        if not self._tokens.may_issue(owner):
            return {"error_code": ErrorCode.POLICY_VIOLATION}
        asked_ms = call.body.max_lifetime_ms
        lifetime_ms = self._lifetime_ms if asked_ms <= 0 else min(asked_ms, self._lifetime_ms)
        return self._create(owner, caller.name, renewers, lifetime_ms)

    async def _create(self, owner: str, requester: str, renewers: list[str], lifetime_ms: int) -> Body:
        try:
            token = await self._tokens.issue(owner, requester, renewers, lifetime_ms, self._expiry_ms)
        except MainstemError as error:
            return {"error_code": code_of(error)}
        return {
            "error_code": ErrorCode.NONE,
            "issue_timestamp_ms": token.issued_ms,
            "expiry_timestamp_ms": token.expires_ms,
            "max_timestamp_ms": token.max_ms,
            "token_id": token.id,
            "hmac": self._tokens.secret_of(token),
            **_principals(token),
        }

    async def renew(self, call: Call) -> Body:
        """By its owner, or by who was named as a renewer."""
        token = self._changeable(call)
        if isinstance(token, ErrorCode):
            return {"error_code": token, "expiry_timestamp_ms": -1}
        period_ms = call.body.renew_period_ms
        period_ms = self._expiry_ms if period_ms < 0 else min(period_ms, self._lifetime_ms)
        return await self._hold(token, self._clock.now_ms() + period_ms)

    async def expire(self, call: Call) -> Body:
        """End it, at once or in a while."""
        token = self._changeable(call)
        if isinstance(token, ErrorCode):
            return {"error_code": token, "expiry_timestamp_ms": -1}
        now, period_ms = self._clock.now_ms(), call.body.expiry_time_period_ms
        if period_ms >= 0:
            return await self._hold(token, now + min(period_ms, self._lifetime_ms))
        try:
            await self._tokens.end(token)
        except MainstemError as error:
            return {"error_code": code_of(error), "expiry_timestamp_ms": -1}
        return {"error_code": ErrorCode.NONE, "expiry_timestamp_ms": now}

    async def _hold(self, token: DelegationToken, until_ms: int) -> Body:
        try:
            token = await self._tokens.renew(token, until_ms)
        except MainstemError as error:
            return {"error_code": code_of(error), "expiry_timestamp_ms": -1}
        return {"error_code": ErrorCode.NONE, "expiry_timestamp_ms": token.expires_ms}

    def describe(self, call: Call) -> Body:
        """Those that are the client's, or that it may renew; administrators see all."""
        caller = self._caller(call)
        if isinstance(caller, ErrorCode):
            return {"error_code": caller, "tokens": []}
        owners = None if call.body.owners is None else {owner.principal_name for owner in call.body.owners}
        return {
            "error_code": ErrorCode.NONE,
            "tokens": [
                {
                    "issue_timestamp": token.issued_ms,
                    "expiry_timestamp": token.expires_ms,
                    "max_timestamp": token.max_ms,
                    "token_id": token.id,
                    "hmac": self._tokens.secret_of(token),
                    "renewers": [{"principal_type": USER, "principal_name": name} for name in token.renewers],
                    **_principals(token),
                }
                for token in self._tokens.all()
                if (owners is None or token.owner in owners) and (caller.is_administrator or _is_for(caller, token))
            ],
        }

    def _caller(self, call: Call) -> Caller | ErrorCode:
        """Who asks, if it may ask for tokens: somebody who is known, and by more than a token."""
        state: Authentication = call.connection.get("authentication", Authentication)
        caller = state.caller
        if caller is None or caller.is_delegated or call.connection.user == ANONYMOUS:
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return caller if self._tokens.are_given else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    def _changeable(self, call: Call) -> DelegationToken | ErrorCode:
        caller = self._caller(call)
        if isinstance(caller, ErrorCode):
            return caller
        token = self._tokens.by_secret(bytes(call.body.hmac))
        if token is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        if not _is_for(caller, token):
            return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        if token.expires_ms <= self._clock.now_ms():
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        return token


def _is_for(caller: Caller, token: DelegationToken) -> bool:
    return caller.name in (token.owner, token.requester, *token.renewers)


def _principals(token: DelegationToken) -> Body:
    return {
        "principal_type": USER,
        "principal_name": token.owner,
        "token_requester_principal_type": USER,
        "token_requester_principal_name": token.requester,
    }
