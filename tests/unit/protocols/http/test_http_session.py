"""HTTP as clients meet it: statuses, keep-alive, order, limits."""

from collections.abc import Callable

import pytest

from mainstem.protocols.http.codec import Request, Response
from mainstem.protocols.http.errors import UnknownPath
from mainstem.protocols.http.handlers.operation.operations import OperationsHandlers
from mainstem.protocols.http.handlers.routes import Call, Handler, Route, Routes
from mainstem.protocols.http.session import HttpSession, HttpSettings, Respond
from tests.support.clients.fixed_operations import FixedOperations
from tests.support.clients.http_client import Reply, read_replies
from tests.support.clients.http_client import request_bytes as get
from tests.support.clients.session_driver import Driver

DATE = "Thu, 01 Jan 1970 00:00:00 GMT"


def opened(handle: Callable[[Request, Respond], None] | None = None, condition: str = "ready", **limits: int) -> Driver:
    routes = Routes(OperationsHandlers(FixedOperations(condition)).routes(), spawn=lambda work: work.close())
    settings = HttpSettings(**limits)
    return Driver(lambda wake: HttpSession(wake, settings, handle or routes.handle, lambda: DATE))


def only(handler: Handler) -> Callable[[Request, Respond], None]:
    return Routes([Route("GET", "/", handler, {200: None})], spawn=lambda work: work.close()).handle


def ask(driver: Driver, *requests: bytes) -> list[Reply]:
    driver.feed(b"".join(requests))
    return read_replies(bytes(driver.output), [request.split(b" ", 1)[0].decode() for request in requests])


def test_health_is_alive_in_any_condition() -> None:
    (reply,) = ask(opened(condition="draining"), get("/health"))
    assert (reply.status, reply.json()["status"]) == (200, "alive")
    assert reply.headers["date"] == DATE


@pytest.mark.parametrize(
    ("condition", "status"), [("ready", 200), ("starting", 503), ("draining", 503), ("failed", 503)]
)
def test_ready_follows_the_condition(condition: str, status: int) -> None:
    (reply,) = ask(opened(condition=condition), get("/ready"))
    assert (reply.status, reply.json()["status"]) == (status, condition)


def test_an_unknown_path_is_404_and_the_connection_goes_on() -> None:
    first, second = ask(opened(), get("/nowhere"), get("/health"))
    assert first.status == 404
    assert first.problem == "unknown-path"
    assert second.status == 200


def test_a_wrong_method_is_405_and_names_the_right_ones() -> None:
    first, second = ask(opened(), get("/health", method="DELETE"), get("/health"))
    assert (first.status, first.headers["allow"], second.status) == (405, "GET, HEAD", 200)


def test_head_has_the_headers_of_get_and_no_content() -> None:
    whole, head, after = ask(opened(), get("/health"), get("/health", method="HEAD"), get("/health"))
    assert head.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == str(len(whole.body))
    assert after.body == whole.body


def test_a_target_may_be_a_whole_url() -> None:
    (reply,) = ask(opened(), get("http://a/health?verbose=1"))
    assert reply.status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),  # RFC 9112, 3.2: without Host
        (b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET http://[bad/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
)
def test_what_is_not_http_is_answered_and_ends(request_bytes: bytes, status: int) -> None:
    driver = opened()
    driver.feed(request_bytes)
    (reply,) = read_replies(bytes(driver.output), ["GET"])
    assert reply.status == status
    assert reply.headers["connection"] == "close"
    assert driver.session.finished


def test_content_over_the_limit_is_refused_when_announced() -> None:
    driver = opened(body_bytes_max=10)
    driver.feed(b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
    (reply,) = read_replies(bytes(driver.output), ["POST"])
    assert (reply.status, driver.session.finished) == (413, True)


def test_content_at_the_limit_is_taken() -> None:
    seen: list[bytes] = []

    def keep(request: Request, respond: Respond) -> None:
        seen.append(request.body)
        respond(Response(204))

    (reply,) = ask(opened(keep, body_bytes_max=10), get("/", method="POST", body=b"0123456789"))
    assert (reply.status, seen) == (204, [b"0123456789"])


def test_a_head_over_the_limit_is_431() -> None:
    driver = opened(head_bytes_max=100)
    driver.feed(get("/health", "X: " + "x" * 200)[:150])
    (reply,) = read_replies(bytes(driver.output), ["GET"])
    assert (reply.status, driver.session.finished) == (431, True)


def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    driver = opened()
    driver.feed(b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert driver.output.startswith(b"HTTP/1.1 100 ")
    driver.feed(b"ab")
    assert b"HTTP/1.1 405 " in driver.output


@pytest.mark.parametrize(
    "request_bytes", [get("/health", "Connection: close"), get("/health", version="1.0")], ids=["close", "1.0"]
)
def test_the_client_may_want_no_more(request_bytes: bytes) -> None:
    driver = opened()
    assert ask(driver, request_bytes)[0].status == 200
    assert driver.session.finished


def test_a_request_that_dribbles_in_is_408() -> None:
    driver = opened(request_timeout_ms=30_000)
    driver.feed(b"GET /hea")
    for now in (100.0, 129.9):
        driver.session.time_passed(now)
        assert not driver.session.finished
    driver.session.time_passed(130.0)
    assert driver.woken
    driver.pump()
    (reply,) = read_replies(bytes(driver.output), ["GET"])
    assert (reply.status, driver.session.finished) == (408, True)


def test_an_idle_connection_has_no_deadline() -> None:
    driver = opened(request_timeout_ms=1)
    ask(driver, get("/health"))
    for now in (0.0, 1e6):
        driver.session.time_passed(now)
    assert not driver.session.finished


def test_one_request_at_a_time_and_no_input_in_between() -> None:
    waiting: list[Respond] = []
    seen: list[str] = []

    def later(request: Request, respond: Respond) -> None:
        seen.append(request.path)
        waiting.append(respond)

    driver = opened(later)
    driver.feed(get("/1") + get("/2"))
    assert seen == ["/1"]
    assert driver.session.input_wanted is None
    assert driver.session.busy
    waiting.pop()(Response(200, b"one"))
    assert driver.woken
    driver.pump()
    assert seen == ["/1", "/2"]
    waiting.pop()(Response(200, b"two"))
    driver.pump()
    assert [reply.body for reply in read_replies(bytes(driver.output), ["GET", "GET"])] == [b"one", b"two"]


def test_draining_closes_after_the_request_in_flight() -> None:
    waiting: list[Respond] = []
    driver = opened(lambda request, respond: waiting.append(respond))
    driver.feed(get("/1") + get("/2"))
    driver.session.drain()
    assert not driver.session.finished
    waiting.pop()(Response(200))
    driver.pump()
    (reply,) = read_replies(bytes(driver.output), ["GET"])
    assert reply.headers["connection"] == "close"
    assert driver.session.finished
    assert not waiting


def test_a_failing_handler_is_500_and_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    def fail(call: Call) -> Response:
        raise RuntimeError("secret")

    (reply,) = ask(opened(only(fail)), get("/"))
    assert (reply.status, reply.problem) == (500, "internal-error")
    assert b"secret" not in reply.body
    assert "secret" in caplog.text


def test_a_handler_may_refuse() -> None:
    def refuse(call: Call) -> Response:
        raise UnknownPath("no such topic")

    (reply,) = ask(opened(only(refuse)), get("/"))
    assert (reply.status, reply.json()["detail"]) == (404, "no such topic")


def test_no_content_has_no_length() -> None:
    first, second = ask(opened(only(lambda call: None)), get("/"), get("/"))
    assert (first.status, second.status) == (204, 204)
    assert not {"content-length", "content-type", "transfer-encoding"} & first.headers.keys()
