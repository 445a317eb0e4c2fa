"""What SCRAM needs of users, administered over the protocol (KIP-554). They are users of all protocols."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.security.authentication import Authentication
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.scram import Verifier, from_salted

MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
NUMBERS = {name: number for number, name in MECHANISMS.items()}
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
SALT_BYTES_MAX = 1_024


class RefusedUser(Exception):
    """Nothing about this user is changed."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class UserHandlers:
    """DescribeUserScramCredentials, AlterUserScramCredentials."""

    def __init__(self, broker: Broker, configured_user: str | None) -> None:
        self._access = broker.access
        self._configured_user = configured_user
        self._changes_lock = asyncio.Lock()

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Served(self.describe, 0, 0),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Served(self.alter, 0, 0),
        }

    def describe(self, call: Call) -> Body:
        """Who there is, and by which mechanisms."""
        asked = [user.name for user in call.body.users or ()]
        asked = asked or sorted(user.name for user in self._access.stored() if user.verifiers)
        times = Counter(asked)
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "results": [self._describe(name, times[name]) for name in times],
        }

    def _describe(self, name: str, times: int) -> Body:
        verifiers = self._verifiers_of(name)
        code, message = ErrorCode.NONE, None
        if times > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif not verifiers:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {name}"
        infos = [
            {"mechanism": NUMBERS[mechanism], "iterations": verifier.iterations}
            for mechanism, verifier in sorted(verifiers.items())
        ]
        return {
            "user": name,
            "error_code": code,
            "error_message": message,
            "credential_infos": infos if code == ErrorCode.NONE else [],
        }

    # Alter

    async def alter(self, call: Call) -> Body:
        """Each user succeeds or fails as a whole; those that succeed are stored by one commit."""
        async with self._changes_lock:
            changed: dict[str, User | None] = {}
            results: dict[str, Body] = {}
            for name in dict.fromkeys(alteration.name for alteration in (*call.body.deletions, *call.body.upsertions)):
                try:
                    changed[name] = self._revise(name, call.body)
                    results[name] = {"user": name, "error_code": ErrorCode.NONE, "error_message": None}
                except RefusedUser as refusal:
                    results[name] = {"user": name, "error_code": refusal.code, "error_message": str(refusal)}
            try:
                if changed:
                    gone = [name for name, user in changed.items() if user is None]
                    await self._access.alter([user for user in changed.values() if user is not None], gone)
                for name, user in changed.items():
                    if user is None or not user.has_password:
                        # Who deletes itself still gets this answer.
                        call.connection.get("authentication", Authentication).end_behind(name, call.reply)
                        self._access.end_callers(name, f"user '{name}' is deleted")
            except MainstemError as error:
                results |= {n: {"user": n, "error_code": code_of(error), "error_message": str(error)} for n in changed}
            return {"results": list(results.values())}

    def _verifiers_of(self, name: str) -> Mapping[str, Verifier]:
        user = self._access.find(name)
        return {} if user is None else user.verifiers

    def _revise(self, name: str, body: Any) -> User | None:
        """The user as it is to be; None: nothing is left of it."""
        deletions = [deletion for deletion in body.deletions if deletion.name == name]
        upsertions = [upsertion for upsertion in body.upsertions if upsertion.name == name]
        if not name:
            raise RefusedUser(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if name == self._configured_user:
            message = "This user is configured with the broker, and his password with him."
            raise RefusedUser(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
        mechanisms = [alteration.mechanism for alteration in (*deletions, *upsertions)]
        if any(mechanism not in MECHANISMS for mechanism in mechanisms):
            raise RefusedUser(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if len(set(mechanisms)) < len(mechanisms):
            message = "A user credential cannot be altered twice in the same request"
            raise RefusedUser(ErrorCode.DUPLICATE_RESOURCE, message)
        verifiers = dict(self._verifiers_of(name))
        for deletion in deletions:
            if verifiers.pop(MECHANISMS[deletion.mechanism], None) is None:
                message = "Attempt to delete a user credential that does not exist"
                raise RefusedUser(ErrorCode.RESOURCE_NOT_FOUND, message)
        for upsertion in upsertions:
            verifiers[MECHANISMS[upsertion.mechanism]] = _verifier(upsertion)
        if not verifiers and not self._access.has_rights(name):
            return None
        # The hash for other protocols is of a password that is not the user's any more.
        keeps_hash = bool(verifiers) and not upsertions
        user = self._access.find(name) or User(name)
        revised = msgspec.structs.replace(user, verifiers=verifiers)
        return revised if keeps_hash else msgspec.structs.replace(revised, password_hash="")


def _verifier(upsertion: Any) -> Verifier:
    iterations, salt = upsertion.iterations, bytes(upsertion.salt)
    if iterations < ITERATIONS_MIN:
        raise RefusedUser(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise RefusedUser(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not salt or not upsertion.salted_password or len(salt) > SALT_BYTES_MAX:
        raise RefusedUser(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and password are needed, and the salt is short")
    return from_salted(bytes(upsertion.salted_password), MECHANISMS[upsertion.mechanism], salt, iterations)
