"""Who asks on the registry's own listener, and what they may do: as on that of HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from mainstem.broker.users.callers import ADMINISTRATOR, Caller, LoginRefused
from mainstem.broker.users.door import Door
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.registry.errors import Forbidden, LoginNeeded, RegistryError
from mainstem.wire.http.messages import Request
from mainstem.wire.http.origins import READING

NAME = "schema-registry"
MONITORING = "monitoring"


class Logins:
    """Lets callers in, by a password or as nobody in particular where that is let in."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def identify(self, request: Request, endpoints: Endpoints, tell: Callable[[Caller | RegistryError], None]) -> None:
        """Who it is, now or later."""
        scheme, _, proof = (request.header(b"authorization") or "").partition(" ")
        if not scheme:
            try:
                tell(self._door.admit_anonymous(NAME, endpoints))
            except LoginRefused as refusal:
                tell(LoginNeeded(str(refusal)))
            return
        try:
            if scheme.lower() != "basic":
                raise ValueError
            name, _, password = base64.b64decode(proof.strip(), validate=True).partition(b":")
            user = name.decode()
        except (binascii.Error, ValueError):
            self._door.refuse(NAME, endpoints)
            tell(LoginNeeded("the Authorization header cannot be read"))
            return

        def told(answer: Caller | LoginRefused) -> None:
            tell(LoginNeeded(str(answer)) if isinstance(answer, LoginRefused) else answer)

        self._door.ask_password(NAME, user, password, endpoints, told)


def check_rights(caller: Caller, request: Request) -> None:
    """Administrators may do everything, the tag `monitoring` reads. Raises Forbidden."""
    if ADMINISTRATOR in caller.tags or (MONITORING in caller.tags and request.method in READING):
        return
    raise Forbidden(f"user {caller.name} has not the tag {ADMINISTRATOR}")
