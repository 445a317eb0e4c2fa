"""The adapter with its real clock."""

from email.utils import parsedate_to_datetime

from mainstem.protocols.http.adapter import HttpAdapter, HttpDate
from mainstem.protocols.http.session import HttpSettings
from tests.contract.sessions.driver import Driver
from tests.contract.sessions.session_cases import FixedOperations


def test_the_date_is_one_that_http_knows() -> None:
    date = HttpDate()
    assert parsedate_to_datetime(date()).tzname() == "UTC"
    assert date() == date()


def test_the_paths_of_an_operator_are_served() -> None:
    adapter = HttpAdapter(HttpSettings(), FixedOperations())
    for path in ("/health", "/ready", "/metrics"):
        driver = Driver(adapter.open_session)
        driver.feed(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert driver.output.startswith(b"HTTP/1.1 200 ")
