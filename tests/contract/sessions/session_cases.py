"""Every protocol's session, as the contract suite needs it. A new adapter adds a case here."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mainstem.protocols.http.codec import Request, Response
from mainstem.protocols.http.handlers.operation.operations import OperationsHandlers
from mainstem.protocols.http.handlers.routes import Routes
from mainstem.protocols.http.session import Handle, HttpSession, HttpSettings, Respond
from mainstem.protocols.management.session import ManagementSession, ManagementSettings
from mainstem.protocols.pulsar.session.admin import AdminSession
from mainstem.protocols.pulsar.session.settings import AdminSettings
from mainstem.protocols.registry.session import RegistrySession, RegistrySettings
from mainstem.transport.session import Session, Wake
from mainstem.wire.websocket.frames import BINARY, NORMAL, PING, encode_close, masked
from mainstem.wire.websocket.session import WebSocketLimits, WebSocketSession
from tests.contract.sessions import (
    amqp_case,
    http2_case,
    kafka_case,
    mqtt_case,
    pulsar_case,
    remoting_case,
    stomp_case,
)
from tests.support.clients.fixed_operations import FixedOperations


class Case(NamedTuple):
    """A protocol, a conversation in it, and inputs that it must refuse."""

    name: str
    open: Callable[[Wake], Session]
    settle: Callable[[], None]
    """Completes the answers that come later."""
    conversation: bytes
    """Complete requests, several of them, after which the session goes on waiting; they can be said again and again."""
    oversize: tuple[bytes, ...]
    """Beginnings that announce, or are, more than the session takes."""
    input_bytes_max: int
    """The session never wants more than this at once."""
    refuses_in_silence: bool = False
    """Whether the protocol has no words for what is too large, and closes."""
    opening: bytes = b""
    """What is said once, before the conversation."""
    farewell: bytes = b""
    """What the session says last, when the peer has closed its half."""


def http_routes() -> Routes:
    return Routes(OperationsHandlers(FixedOperations()).routes(), spawn=lambda work: work.close())


HTTP_SETTINGS = HttpSettings(head_bytes_max=512, body_bytes_max=100)
HTTP_CONVERSATION = (
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    b"HEAD /ready HTTP/1.1\r\nHost: a\r\n\r\n"
    b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    b"PUT /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    b"GET /ready?x=y HTTP/1.1\r\nHost: a\r\n\r\n"
)
HTTP_OVERSIZE = (
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101,
    b"GET /" + b"x" * 600,
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 600,
)


def _http(name: str, handle: Handle, settle: Callable[[], None]) -> Case:
    def open_session(wake: Wake) -> HttpSession:
        return HttpSession(wake, HTTP_SETTINGS, handle, date=lambda: "Thu, 01 Jan 1970 00:00:00 GMT")

    return Case(name, open_session, settle, HTTP_CONVERSATION, HTTP_OVERSIZE, input_bytes_max=1)


class LateAnswers:
    """Handlers that answer only when settled."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._waiting: list[tuple[Respond, Response]] = []

    def handle(self, request: Request, respond: Respond) -> None:
        self._handle(request, lambda response: self._waiting.append((respond, response)))

    def settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for respond, response in waiting:
            respond(response)


def _registry() -> Case:
    def open_session(wake: Wake) -> RegistrySession:
        settings = RegistrySettings(head_bytes_max=512, body_bytes_max=100)
        return RegistrySession(wake, settings, http_routes().handle, date=lambda: "Thu, 01 Jan 1970 00:00:00 GMT")

    return Case("registry", open_session, lambda: None, HTTP_CONVERSATION, HTTP_OVERSIZE, input_bytes_max=1)


def _management() -> Case:
    def open_session(wake: Wake) -> ManagementSession:
        settings = ManagementSettings(head_bytes_max=512, body_bytes_max=100)
        return ManagementSession(wake, settings, http_routes().handle, date=lambda: "Thu, 01 Jan 1970 00:00:00 GMT")

    return Case("management", open_session, lambda: None, HTTP_CONVERSATION, HTTP_OVERSIZE, input_bytes_max=1)


def _pulsar_admin() -> Case:
    def open_session(wake: Wake) -> AdminSession:
        settings = AdminSettings(head_bytes_max=512, body_bytes_max=100)
        return AdminSession(wake, settings, http_routes().handle, date=lambda: "Thu, 01 Jan 1970 00:00:00 GMT")

    return Case("pulsar-admin", open_session, lambda: None, HTTP_CONVERSATION, HTTP_OVERSIZE, input_bytes_max=1)


WEBSOCKET_OPENING = (
    b"GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: other, carried\r\n\r\n"
)


def frame(opcode: int, content: bytes, *, is_final: bool = True) -> bytes:
    """As a client sends it."""
    head = bytes((opcode | 0x80 * is_final, 0x80 | min(len(content), 126)))
    return head + (len(content).to_bytes(2, "big") if len(content) > 125 else b"") + b"abcd" + masked(content, b"abcd")


def _websocket(name: str, handle: Handle, settle: Callable[[], None]) -> Case:
    """HTTP, carried: its requests in one message of several frames, with a Ping among them."""

    def open_session(wake: Wake) -> WebSocketSession:
        limits = WebSocketLimits(head_bytes_max=512, message_bytes_max=2_000)
        carried = _http("", handle, settle)
        return WebSocketSession(wake, limits, lambda wake, chosen, upgrade: carried.open(wake), ["carried"])

    parts = [HTTP_CONVERSATION[at : at + 150] for at in range(0, len(HTTP_CONVERSATION), 150)]
    frames = [frame(0 if at else BINARY, part, is_final=at == len(parts) - 1) for at, part in enumerate(parts)]
    return Case(
        name,
        open_session,
        settle,
        b"".join([frames[0], frame(PING, b"hello"), *frames[1:], frame(BINARY, b"")]),
        (
            b"GET /" + b"x" * 600,
            WEBSOCKET_OPENING + b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"abcd",
            WEBSOCKET_OPENING + b"\x82\xfe\x07\xd1abcd",
            WEBSOCKET_OPENING + frame(BINARY, HTTP_OVERSIZE[0]),
        ),
        input_bytes_max=512,
        opening=WEBSOCKET_OPENING,
        farewell=encode_close(NORMAL),
    )


def cases() -> Iterator[Case]:
    """All of them, new each time."""
    yield _websocket("websocket", http_routes().handle, lambda: None)
    carried_late = LateAnswers(http_routes().handle)
    yield _websocket("websocket, answered later", carried_late.handle, carried_late.settle)
    yield _management()
    yield _registry()
    yield _pulsar_admin()
    yield _http("http", http_routes().handle, lambda: None)
    late = LateAnswers(http_routes().handle)
    yield _http("http, answered later", late.handle, late.settle)
    for name, broker in (
        ("kafka", kafka_case.StubBroker()),
        ("kafka, answered later", kafka_case.LateBroker()),
        ("kafka, throttled", kafka_case.ThrottlingBroker()),
    ):
        yield Case(
            name,
            kafka_case.opener(broker),
            broker.settle,
            kafka_case.CONVERSATION,
            kafka_case.OVERSIZE,
            input_bytes_max=4 + kafka_case.SETTINGS.request_bytes_max,
            refuses_in_silence=True,
        )
    for name, stub in (("amqp", amqp_case.StubBroker()), ("amqp, answered later", amqp_case.LateBroker())):
        yield Case(
            name,
            stub.open,
            stub.settle,
            amqp_case.CONVERSATION,
            amqp_case.OVERSIZE,
            input_bytes_max=8 + amqp_case.SETTINGS.frame_bytes_max,
            opening=amqp_case.OPENING,
        )
    for name, is_late in (("rocketmq remoting", False), ("rocketmq remoting, answered later", True)):
        remoting = remoting_case.StubBroker(is_late=is_late)
        yield Case(
            name,
            remoting.open,
            remoting.settle,
            remoting_case.CONVERSATION,
            remoting_case.OVERSIZE,
            input_bytes_max=4 + remoting_case.SETTINGS.frame_bytes_max,
            refuses_in_silence=True,
        )
    for name, is_late in (("pulsar", False), ("pulsar, answered later", True)):
        pulsar = pulsar_case.StubBroker(is_late=is_late)
        yield Case(
            name,
            pulsar.open,
            pulsar.settle,
            pulsar_case.CONVERSATION,
            pulsar_case.OVERSIZE,
            input_bytes_max=4 + (10 << 10) + pulsar_case.MESSAGE_BYTES_MAX,
            refuses_in_silence=True,
        )
    for name, is_late in (("mqtt", False), ("mqtt, answered later", True)):
        devices = mqtt_case.StubBroker(is_late=is_late)
        yield Case(
            name,
            devices.open,
            devices.settle,
            mqtt_case.CONVERSATION,
            mqtt_case.OVERSIZE,
            input_bytes_max=mqtt_case.SETTINGS.packet_bytes_max,
            refuses_in_silence=True,
            opening=mqtt_case.OPENING,
        )
    for name, is_late in (("stomp", False), ("stomp, answered later", True)):
        scripts = stomp_case.StubBroker(is_late=is_late)
        yield Case(
            name,
            scripts.open,
            scripts.settle,
            stomp_case.CONVERSATION,
            stomp_case.OVERSIZE,
            input_bytes_max=10_001,
            opening=stomp_case.OPENING,
        )
    yield Case(
        "http2",
        http2_case.open_session,
        lambda: None,
        http2_case.CONVERSATION,
        http2_case.OVERSIZE,
        input_bytes_max=9 + 16_384,
        opening=http2_case.OPENING,
        farewell=http2_case.FAREWELL,
    )
