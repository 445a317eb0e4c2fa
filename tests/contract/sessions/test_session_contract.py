"""What every session keeps, whatever arrives and however it is split."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.sessions.session_cases import Case, cases
from tests.support.clients.session_driver import Driver

NAMES = [case.name for case in cases()]
every_session = pytest.mark.parametrize("name", NAMES)


def case_of(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


def driver_of(case: Case) -> Driver:
    return Driver(case.open, case.settle)


def said(name: str, *pieces: bytes) -> bytes:
    driver = driver_of(case_of(name))
    for piece in pieces:
        driver.feed(piece)
    assert not driver.session.finished
    return bytes(driver.output)


def all_of(name: str) -> bytes:
    case = case_of(name)
    return case.opening + case.conversation


@every_session
def test_the_same_is_said_wherever_the_bytes_are_split(name: str) -> None:
    conversation = all_of(name)
    whole = said(name, conversation)
    assert whole
    for cut in range(1, len(conversation)):
        assert said(name, conversation[:cut], conversation[cut:]) == whole, f"split at {cut}"


@every_session
def test_the_same_is_said_byte_by_byte(name: str) -> None:
    conversation = all_of(name)
    assert said(name, *(conversation[i : i + 1] for i in range(len(conversation)))) == said(name, conversation)


@every_session
def test_much_pipelined_input_is_answered_in_full(name: str) -> None:
    """More answers than a session says at once; each step of output is taken before the next."""
    opening, conversation = case_of(name).opening, case_of(name).conversation
    greeting = said(name, opening)
    once = said(name, opening, conversation)[len(greeting) :]
    assert said(name, opening, conversation * 200) == greeting + once * 200


@every_session
@given(garbage=st.binary(max_size=2_000), valid=st.integers(0, 700), cuts=st.lists(st.integers(0, 2_700), max_size=5))
def test_garbage_never_escapes_as_an_error(name: str, garbage: bytes, valid: int, cuts: list[int]) -> None:
    case = case_of(name)
    data = all_of(name)[:valid] + garbage
    driver = driver_of(case)
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        driver.feed(data[begin:end])
        wanted = driver.session.input_wanted
        assert wanted is None or wanted <= case.input_bytes_max
    driver.end_input()
    driver.session.closed()


@every_session
def test_too_much_is_refused_and_ends_the_session(name: str) -> None:
    case = case_of(name)
    for beginning in case.oversize:
        driver = driver_of(case)
        driver.feed(beginning)
        assert driver.session.finished, beginning[:80]
        assert bool(driver.output) is not case.refuses_in_silence, "refused without a word, or with one"


def let_time_pass(driver: Driver) -> None:
    for now in (0.0, 1e6, 2e6):
        driver.session.time_passed(now)


def drain_and_lose(driver: Driver) -> None:
    driver.session.drain()
    driver.session.closed()


ENDINGS: dict[str, Callable[[Driver], None]] = {
    "the peer closes its half": Driver.end_input,
    "the connection is lost": lambda driver: driver.session.closed(),
    "time passes": let_time_pass,
    "it is drained, and lost": drain_and_lose,
}


@every_session
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_end_in_the_middle_of_anything_is_quiet(name: str, ending: str) -> None:
    conversation = all_of(name)
    for cut in range(len(conversation) + 1):
        case = case_of(name)
        driver = driver_of(case)
        driver.feed(conversation[:cut])
        ENDINGS[ending](driver)
        driver.pump()
        case.settle()


@every_session
def test_a_half_closed_peer_still_gets_its_answers(name: str) -> None:
    case = case_of(name)
    driver = driver_of(case)
    driver.feed(all_of(name))
    driver.end_input()
    assert driver.session.finished
    assert driver.output == said(name, all_of(name)) + case.farewell


@every_session
def test_draining_finishes_what_has_begun(name: str) -> None:
    conversation = all_of(name)
    for cut in range(len(conversation) + 1):
        driver = driver_of(case_of(name))
        driver.feed(conversation[:cut])
        before = len(driver.output)
        had_begun = not driver.session.finished
        driver.session.drain()
        driver.pump()
        if not driver.session.finished:
            driver.feed(conversation[cut:])
            assert len(driver.output) > before, "began, and was not answered"
        assert had_begun
        assert driver.session.finished


@every_session
def test_an_answer_after_the_end_is_dropped(name: str) -> None:
    case = case_of(name)
    driver = driver_of(case._replace(settle=lambda: None))
    driver.feed(all_of(name))
    driver.session.closed()
    case.settle()
    assert driver.session.finished


@every_session
def test_a_session_between_requests_owes_nothing(name: str) -> None:
    driver = driver_of(case_of(name))
    assert not driver.session.busy
    driver.feed(all_of(name))
    assert not driver.session.busy
