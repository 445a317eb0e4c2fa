"""/v1/session: the login of a browser."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.users.access import ANONYMOUS
from mainstem.broker.users.callers import LoginRefused
from mainstem.broker.users.sessions import LIFETIME_MS, token_of
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.clients.logins import COOKIE, NAME, SESSION_PATH, check_page, cookie_of
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.clients.users import BegunSession, SessionDocument, SessionWish

OK, NO_CONTENT = 200, 204
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class SessionHandlers:
    """Begin, show and end the session of a browser."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._door = broker.door
        self._sessions = broker.sessions

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("POST", SESSION_PATH, self.begin_session, {OK: BegunSession}, content=SessionWish,
                  refusals=(errors.LoginNeeded, *WRITES)),
            Route("GET", SESSION_PATH, self.get_session, {OK: SessionDocument}, header_names=("Cookie",),
                  refusals=(errors.LoginNeeded,)),
            Route("DELETE", SESSION_PATH, self.end_session, {NO_CONTENT: None},
                  header_names=("Cookie", "X-Mainstem-Token"), refusals=(errors.Forbidden, *WRITES)),
        ]  # fmt: skip

    async def begin_session(self, call: Call) -> Response:
        """Log in by name and password, or by a token; the cookie is the proof from then on, and changes need the token."""
        wish: SessionWish = call.content
        try:
            if wish.token is not None and wish.user is None and wish.password is None:
                caller = await self._door.log_in_with_token(NAME, wish.token, call.endpoints)
            elif wish.user is not None and wish.password is not None and wish.token is None:
                password = wish.password.encode()
                caller = await self._door.log_in_with_password(NAME, wish.user, password, call.endpoints)
            else:
                raise errors.InvalidContent("either user and password are needed, or a token")
        except LoginRefused as refusal:
            raise errors.LoginNeeded(str(refusal)) from None
        begun = await self._sessions.begin(caller)
        age_s = max(1, (begun.expires_ms - self._broker.clock.now_ms()) // 1000)
        document = BegunSession(caller.name, begun.token, begun.expires_ms)
        return encode_json(OK, document, (("set-cookie", _cookie(begun.secret, age_s, call)),))

    def get_session(self, call: Call) -> SessionDocument:
        """Who is logged in, and whether anybody has to be."""
        is_needed = not self._door.may_be_anonymous(NAME, call.endpoints)
        secret = cookie_of(call.request)
        session = self._sessions.find(secret) if secret else None
        if session is not None:
            return SessionDocument(session.user, is_needed, token_of(secret), session.expires_ms)
        if is_needed:
            raise errors.LoginNeeded("a login is needed")
        return SessionDocument(ANONYMOUS, is_needed)

    async def end_session(self, call: Call) -> Response:
        """Log out."""
        secret = cookie_of(call.request)
        session = self._sessions.find(secret) if secret else None
        if session is not None:
            check_page(call.request, secret)
            await self._sessions.end([session])
        return Response(NO_CONTENT, headers=(("set-cookie", _cookie("", 0, call)),))


def _cookie(secret: str, age_s: int, call: Call) -> str:
    assert age_s <= LIFETIME_MS // 1000
    kept = f"{COOKIE}={secret}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict"
    return f"{kept}; Secure" if call.endpoints.is_encrypted else kept
