"""Who guesses passwords is slowed, and nobody else."""

import logging
from collections.abc import Callable

import pytest

from mainstem.broker.users import logins
from mainstem.broker.users.logins import Logins


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_soon(self, function: Callable[[], None]) -> object:
        return function()

    def call_later(self, seconds: float, function: Callable[[], None]) -> "Hand":
        self.later.append((self.now + seconds, function))
        return self

    def cancel(self) -> None:
        raise AssertionError

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [each for each in self.later if each[0] <= end]:
            first = min(due, key=lambda each: each[0])
            self.later.remove(first)
            self.now = first[0]
            first[1]()
        self.now = end


class Guesser:
    def __init__(self) -> None:
        self.clock = Hand()
        self.logins = Logins(self.clock)
        self.checked = 0
        self.answers: list[bool] = []

    def guess(self, name: str = "bob", host: str = "10.0.0.1", *, is_right: bool = False) -> None:
        def check() -> bool:
            self.checked += 1
            return is_right

        self.logins.prove("amqp", name, host, check, self.answers.append)


def test_ten_are_free_and_then_there_is_less_than_one_a_second() -> None:
    world = Guesser()
    for _ in range(10_000):
        world.guess()
    assert world.checked == 10
    assert len(world.answers) + world.logins.waiting + world.logins.held == 10_000
    assert world.logins.held == logins.HELD_MAX
    assert world.logins.waiting <= 61
    world.clock.pass_time(120)
    assert (world.logins.waiting, world.logins.held, len(world.answers)) == (0, 0, 10_000)
    assert world.checked <= 10 + 61
    assert not any(world.answers)
    before = world.checked
    for _ in range(600):
        world.guess()
        world.clock.pass_time(1)
    assert world.checked - before <= 600 / 20, "half a minute between two, once it has doubled"
    assert world.logins.unchecked["amqp"] > 9_000


def test_the_same_user_elsewhere_and_others_at_that_address_are_served_at_once() -> None:
    world = Guesser()
    for _ in range(10_000):
        world.guess()
    seen = len(world.answers)
    world.guess(host="10.0.0.2", is_right=True)
    world.guess("ann", is_right=True)
    world.guess("new", is_right=True)
    assert world.answers[seen:] == [True, True, True]


def test_guesses_from_everywhere_slow_a_user_but_not_who_was_proven() -> None:
    world = Guesser()
    world.guess(host="10.9.9.9", is_right=True)
    for number in range(1_000):
        world.guess(host=f"10.1.{number // 250}.{number % 250}")
    assert world.checked == 1 + 100
    seen = len(world.answers)
    world.guess(host="10.9.9.9", is_right=True)
    assert world.answers[seen:] == [True]


def test_one_address_that_tries_all_names_is_slowed() -> None:
    world = Guesser()
    world.guess("ann", is_right=True)
    for number in range(1_000):
        world.guess(f"user-{number}")
    assert world.checked == 1 + 100
    seen = len(world.answers)
    world.guess("ann", is_right=True)
    world.guess("bob", host="10.0.0.2", is_right=True)
    assert world.answers[seen:] == [True, True]


def test_a_right_password_after_the_wait_forgets_the_wrong_ones() -> None:
    world = Guesser()
    for _ in range(10):
        world.guess()
    world.guess(is_right=True)
    assert len(world.answers) == 10
    world.clock.pass_time(1)
    assert world.answers[10:] == [True]
    world.guess()
    assert len(world.answers) == 12


def test_time_forgets() -> None:
    world = Guesser()
    for _ in range(10):
        world.guess()
    world.clock.pass_time(logins.FORGOTTEN_S + 2)
    world.guess(is_right=True)
    assert world.answers[10:] == [True]


def test_a_network_of_ipv6_is_one_address() -> None:
    world = Guesser()
    for number in range(20):
        world.guess(host=f"2001:db8::{number:x}")
    assert world.checked == 10
    world.guess(host="2001:db8:0:1::1", is_right=True)
    assert world.answers[-1]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "OFFENDERS_MAX", 50)
    monkeypatch.setattr(logins, "PROVEN_MAX", 5)
    world = Guesser()
    for number in range(500):
        world.guess(f"u{number}", f"10.0.{number // 250}.{number % 250}")
        world.guess(f"v{number}", f"10.0.{number // 250}.{number % 250}", is_right=True)
    assert world.logins.offenders <= 50
    assert len(world.logins._proven) == 5


def test_lines_in_the_log_are_few(caplog: pytest.LogCaptureFixture) -> None:
    world = Guesser()
    with caplog.at_level(logging.WARNING):
        for number in range(90):
            world.guess(f"u{number}" + "x" * 1_000)
        assert len(caplog.messages) == logins.LINES_MAX
        assert "amqp login refused: user 'u0" in caplog.messages[0]
        assert len(caplog.messages[0]) < 120
        world.clock.pass_time(61)
        world.guess()
    assert caplog.messages[logins.LINES_MAX] == "70 more logins were refused in the minute before"
    assert world.logins.failures["amqp"] == 91
