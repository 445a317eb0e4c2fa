"""Who is let in by HTTP, and the sessions of browsers."""

import asyncio
import base64
import json
from typing import Any

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.users.sessions import LIFETIME_MS, SESSIONS_OF_USER_MAX
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.http.adapter import HttpAdapter, check_listening
from mainstem.protocols.http.session import HttpSettings
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.fixed_operations import FixedOperations
from tests.support.clients.http_client import Reply, SteadyClock, read_replies, request_bytes
from tests.support.clients.session_driver import Driver
from tests.support.worlds.brokers import with_broker, with_engine

ELSEWHERE = "10.0.0.1"
JSON = "Content-Type: application/json"


class Caller:
    """Asks from one address, as a browser or as a program does."""

    def __init__(
        self,
        broker: Broker,
        peer: str = ELSEWHERE,
        *,
        is_encrypted: bool = False,
        settings: HttpSettings = HttpSettings(),  # noqa: B008
    ) -> None:
        self.broker = broker
        self.cookie = ""
        self.token = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._adapter = HttpAdapter(settings, broker, FixedOperations(), self._spawn)
        self._endpoints = Endpoints(peer, is_encrypted=is_encrypted)

    def _spawn(self, work: Any) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def ask(self, method: str, path: str, content: Any = None, *headers: str) -> Reply:
        body = b"" if content is None else json.dumps(content).encode()
        driver = Driver(lambda wake: self._adapter.open_session(wake, self._endpoints))
        driver.feed(request_bytes(path, JSON, *headers, method=method, body=body, host="localhost:8282"))
        while not driver.output:
            await asyncio.sleep(0)
            driver.pump()
        (reply,) = read_replies(bytes(driver.output), [method])
        return reply

    async def ask_as(self, user: str, method: str, path: str, content: Any = None) -> Reply:
        proof = base64.b64encode(user.encode()).decode()
        return await self.ask(method, path, content, f"Authorization: Basic {proof}")

    async def log_in(self, user: str, password: str) -> Reply:
        reply = await self.ask("POST", "/v1/session", {"user": user, "password": password})
        if reply.status == 200:
            self.cookie = reply.headers["set-cookie"]
            self.token = reply.json()["token"]
        return reply

    async def ask_within(self, method: str, path: str, content: Any = None, *headers: str) -> Reply:
        return await self.ask(method, path, content, f"Cookie: a=b; {self.cookie.partition(';')[0]}", *headers)

    def own(self) -> tuple[str, str]:
        return "Origin: http://localhost:8282", f"X-Mainstem-Token: {self.token}"


async def make(broker: Broker, name: str, *roles: str) -> None:
    await broker.access.set_password(User(name, tags=roles), "secret")


@with_broker
async def test_from_elsewhere_a_login_is_needed(broker: Broker) -> None:
    await make(broker, "root", "administrator")
    await make(broker, "watcher", "monitoring")
    await make(broker, "ann")
    caller = Caller(broker)
    for path in ("/health", "/ready", "/", "/openapi.json"):
        assert (await caller.ask("GET", path)).status == 200
    for method, path in (("GET", "/v1/node"), ("GET", "/metrics"), ("POST", "/v1/topics"), ("GET", "/v1/session")):
        reply = await caller.ask(method, path)
        assert (reply.status, reply.problem) == (401, "login-needed")
        assert reply.headers["www-authenticate"] == 'Bearer realm="mainstem"'
    assert (await caller.ask("GET", "/v1/nothing")).status == 404
    assert (await caller.ask_as("guest:guest", "GET", "/v1/node")).status == 401
    assert (await caller.ask_as("root:wrong", "GET", "/v1/node")).status == 401
    assert (await caller.ask("GET", "/v1/node", None, "Authorization: Basic ???")).status == 401
    assert (await caller.ask("GET", "/v1/node", None, "Authorization: Digest x")).status == 401
    assert broker.logins.failures["http"] == 2
    for user, expected in (
        ("root", {"/v1/node": 200, "/v1/schedules": 200, "/v1/users": 200, "POST": 201}),
        ("watcher", {"/v1/node": 200, "/v1/schedules": 403, "/v1/users": 403, "POST": 403}),
        ("ann", {"/v1/node": 403, "/v1/schedules": 403, "/v1/users": 403, "POST": 403}),
    ):
        for what, status in expected.items():
            method, path = ("POST", "/v1/topics") if what == "POST" else ("GET", what)
            content = {"name": f"{user}-topic"} if what == "POST" else None
            assert (await caller.ask_as(f"{user}:secret", method, path, content)).status == status, (user, what)


@with_broker
async def test_here_nobody_needs_to_log_in_until_that_is_closed(broker: Broker) -> None:
    await make(broker, "root", "administrator")
    here = Caller(broker, "127.0.0.1")
    assert (await here.ask("GET", "/v1/session")).json() == {"user": "anonymous", "needed": False}
    assert (await here.ask("POST", "/v1/topics", {"name": "t"})).status == 201
    assert (await here.ask_as("guest:guest", "GET", "/v1/node")).status == 200
    assert (await here.ask_as("root:wrong", "GET", "/v1/node")).status == 401, "a wrong proof is worse than none"
    assert (await here.ask("PATCH", "/v1/users/anonymous", {"disabled": True})).status == 200
    assert (await here.ask("GET", "/v1/node")).status == 401
    assert (await here.ask_as("root:secret", "PATCH", "/v1/users/anonymous", {"disabled": False})).status == 200
    assert (await here.ask("GET", "/v1/node")).status == 200


@with_broker
async def test_everybody_is_let_in_from_anywhere_only_by_name(broker: Broker) -> None:
    for is_wide, status in ((False, 401), (True, 200)):
        settings = HttpSettings(anybody_from_anywhere=is_wide)
        check_listening(settings, ["0.0.0.0"])
        caller = Caller(broker, settings=settings)
        assert (await caller.ask("GET", "/v1/node")).status == status


@with_engine
async def test_a_session_of_a_browser(engine: MemoryEngine) -> None:
    clock = SteadyClock()
    broker = await Broker.open(engine, clock)
    await make(broker, "root", "administrator")
    browser = Caller(broker, is_encrypted=True)
    assert (await browser.log_in("root", "wrong")).status == 401
    begun = (await browser.log_in("root", "secret")).json()
    assert begun == {"user": "root", "token": browser.token, "expires_ms": clock.now_ms() + LIFETIME_MS}
    kept = browser.cookie.split("; ")
    assert kept[1:] == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict", "Secure"]
    shown = (await browser.ask_within("GET", "/v1/session")).json()
    assert shown == {"user": "root", "needed": True, "token": browser.token, "expires_ms": begun["expires_ms"]}
    assert (await browser.ask_within("GET", "/v1/users")).status == 200
    wish = {"name": "t"}
    origin, token = browser.own()
    for headers in (
        (),
        (origin,),
        (token,),
        ("Origin: http://evil", token),
        (origin, f"{token}0"),
        ("Origin: ", token),
    ):
        assert (await browser.ask_within("POST", "/v1/topics", wish, *headers)).status == 403, headers
    assert (await browser.ask_within("POST", "/v1/topics", wish, origin, token)).status == 201
    # It outlives a restart, and ends with a logout.
    browser.broker = broker = await Broker.open(engine, clock)
    again = Caller(broker)
    again.cookie, again.token = browser.cookie, browser.token
    assert (await again.ask_within("GET", "/v1/users/root")).json()["sessions"] == 1
    assert (await again.ask_within("DELETE", "/v1/session")).status == 403
    reply = await again.ask_within("DELETE", "/v1/session", None, *again.own())
    assert (reply.status, "Max-Age=0" in reply.headers["set-cookie"]) == (204, True)
    assert (await again.ask_within("GET", "/v1/users")).status == 401
    assert (await again.ask_within("DELETE", "/v1/session")).status == 204, "there is nothing to end"
    secret = browser.cookie.partition(";")[0].partition("=")[2].encode()
    stored = (await engine.load("administration")).entries
    assert all(secret not in key + value for key, value in stored.items())


@with_engine
async def test_what_ends_a_session(engine: MemoryEngine) -> None:
    clock = SteadyClock()
    broker = await Broker.open(engine, clock)

    async def begin() -> Caller:
        await make(broker, "root", "administrator")
        browser = Caller(broker)
        assert (await browser.log_in("root", "secret")).status == 200
        return browser

    async def holds(browser: Caller) -> bool:
        return (await browser.ask_within("GET", "/v1/users")).status == 200

    browser = await begin()
    assert await holds(browser)
    await broker.access.set_password(broker.access.get("root"), "other")
    assert not await holds(browser)
    browser = await begin()
    await browser.ask_as("root:secret", "DELETE", "/v1/users/root/sessions")
    assert not await holds(browser)
    browser = await begin()
    await browser.ask_as("root:secret", "PATCH", "/v1/users/root", {"disabled": True})
    assert not await holds(browser)
    browser = await begin()
    await broker.access.remove_user("root")
    await make(broker, "root", "administrator")
    assert not await holds(browser)
    browser = await begin()
    clock.passed_ms = LIFETIME_MS
    assert not await holds(browser)
    first = await begin()
    for _ in range(SESSIONS_OF_USER_MAX):
        clock.passed_ms += 1
        browser = await begin()
    assert not await holds(first)
    assert await holds(browser)


@with_broker
async def test_users_are_made_changed_and_deleted(broker: Broker) -> None:
    here = Caller(broker, "127.0.0.1")
    wish = {"name": "ann", "password": "secret", "roles": ["monitoring"], "limits": {"max-connections": 3}}
    made = await here.ask("POST", "/v1/users", wish)
    assert (made.status, made.headers["location"]) == (201, "/v1/users/ann")
    shown = {
        "name": "ann",
        "roles": ["monitoring"],
        "limits": {"max-connections": 3},
        "disabled": False,
        "proofs": ["password", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        "sessions": 0,
    }
    assert made.json() == (await here.ask("GET", "/v1/users/ann")).json() == shown
    assert (await here.ask("POST", "/v1/users", wish)).problem == "user-exists"
    assert (await here.ask("POST", "/v1/users", {"name": "bob"})).json()["proofs"] == []
    for page, names, following in (
        ("/v1/users?limit=2", ["ann", "bob"], "/v1/users?search=&limit=2&after=bob"),
        ("/v1/users?search=&limit=2&after=bob", ["guest"], None),
        ("/v1/users?search=o", ["bob"], None),
    ):
        found = (await here.ask("GET", page)).json()
        assert ([user["name"] for user in found["users"]], found["next"]) == (names, following)
    assert (await here.ask("PATCH", "/v1/users/ann", {"roles": []})).json() == {**shown, "roles": []}
    assert (await here.ask_as("ann:secret", "GET", "/v1/node")).status == 403
    assert (await here.ask("PATCH", "/v1/users/ann", {"password": None})).json()["proofs"] == []
    assert (await here.ask_as("ann:secret", "GET", "/v1/node")).status == 401
    assert (await here.ask("PATCH", "/v1/users/none", {})).problem == "unknown-user"
    assert (await here.ask("PATCH", "/v1/users/ann", {"limits": {"odd": 1}})).problem == "invalid-user"
    assert (await here.ask("PATCH", "/v1/users/ann", {"odd": 1})).problem == "invalid-content"
    assert (await here.ask("DELETE", "/v1/users/ann")).status == 204
    assert (await here.ask("DELETE", "/v1/users/ann")).problem == "unknown-user"
