"""/v1/users: who may log in, whatever the protocol."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from msgspec import UNSET

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.users.access import ANONYMOUS
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.clients.users import (
    UserChange,
    UserDocument,
    UserPage,
    UserPath,
    UsersQuery,
    UserWish,
    describe_user,
)

OK, CREATED, NO_CONTENT = 200, 201, 204
USERS = "/v1/users"
USER = "/v1/users/{name}"
SESSIONS = "/v1/users/{name}/sessions"
WRITES = (errors.InvalidUser, errors.StorageFull, errors.Overloaded, errors.Unavailable)


class UserHandlers:
    """Users: list, show, make, change, delete, log out."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._access = broker.access
        self._sessions = broker.sessions

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownUser,)
        return [
            Route("GET", USERS, self.list_users, {OK: UserPage}, query=UsersQuery),
            Route("POST", USERS, self.create_user, {CREATED: UserDocument}, content=UserWish,
                  refusals=(errors.UserExists, *WRITES)),
            Route("GET", USER, self.get_user, {OK: UserDocument}, steps=UserPath, refusals=unknown),
            Route("PATCH", USER, self.change_user, {OK: UserDocument}, steps=UserPath, content=UserChange,
                  refusals=(*unknown, *WRITES)),
            Route("DELETE", USER, self.delete_user, {NO_CONTENT: None}, steps=UserPath, refusals=(*unknown, *WRITES)),
            Route("DELETE", SESSIONS, self.end_sessions, {NO_CONTENT: None}, steps=UserPath,
                  refusals=(*unknown, *WRITES)),
        ]  # fmt: skip

    async def list_users(self, call: Call) -> UserPage:
        """Users by name."""
        query: UsersQuery = call.query
        known = {user.name: user for user in self._access.all() if query.search in user.name}
        names, more = await smallest(known, query.after or None, query.limit, Pace(self._broker.clock))
        given = {"search": query.search, "limit": query.limit}
        following = f"{USERS}?{urlencode(given | {'after': names[-1]})}" if more else None
        return UserPage([self._describe(known[name]) for name in names], following)

    async def create_user(self, call: Call) -> Response:
        """Make a user. Without a password nobody can log in as it, until one is set."""
        wish: UserWish = call.content
        if self._access.find(wish.name) is not None:
            raise errors.UserExists(f"there is a user {wish.name}")
        user = User(wish.name, tags=tuple(wish.roles), limits=wish.limits, is_disabled=wish.disabled)
        user = await self._set(user, wish.password)
        return encode_json(CREATED, self._describe(user), (("location", path_of("v1", "users", user.name)),))

    def get_user(self, call: Call) -> UserDocument:
        """One of them."""
        return self._describe(self._access.get(call.path.name))

    async def change_user(self, call: Call) -> UserDocument:
        """Change what is said. A new password ends the user's sessions; who is disabled loses its connections."""
        change: UserChange = call.content
        name = call.path.name
        # Who says nothing has no record until it is closed out.
        user = User(name) if name == ANONYMOUS and self._access.find(name) is None else self._access.get(name)
        said = {
            "tags": UNSET if change.roles is UNSET else tuple(change.roles),
            "limits": change.limits,
            "is_disabled": change.disabled,
        }
        user = msgspec.structs.replace(user, **{field: value for field, value in said.items() if value is not UNSET})
        if change.password is None:
            user = msgspec.structs.replace(user, password_hash="", verifiers={})
        return self._describe(await self._set(user, change.password or None))

    async def _set(self, user: User, password: str | msgspec.UnsetType | None) -> User:
        if isinstance(password, str):
            return await self._access.set_password(user, password)
        await self._access.put(user)
        return user

    async def delete_user(self, call: Call) -> None:
        """Delete a user with all that was given to it; its connections are closed."""
        await self._access.remove_user(call.path.name)

    async def end_sessions(self, call: Call) -> None:
        """Log a user out of all browsers."""
        name = self._access.get(call.path.name).name
        await self._sessions.end(self._sessions.all(name))

    def _describe(self, user: User) -> UserDocument:
        return describe_user(user, len(self._sessions.all(user.name)))
