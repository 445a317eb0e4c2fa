"""Cron expressions against the calendar, summer time included."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.schedules.cron import Cron
from mainstem.coordination.schedules.errors import InvalidRecurrence


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def following(expression: str, zone: str, after: str, count: int = 1) -> list[str]:
    cron, at, found = Cron(expression, zone), ms(after), []
    for _ in range(count):
        at = cron.next_ms(at) or -1
        found.append(datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2024-01-01T00:00:00+00:00", "2024-01-01T00:01:00+00:00"),
        ("*/15 * * * *", "2024-01-01T00:59:59+00:00", "2024-01-01T01:00:00+00:00"),
        ("*/10 * * * * *", "2024-01-01T00:00:05+00:00", "2024-01-01T00:00:10+00:00"),
        ("0 9-17/4 * * mon-fri", "2024-01-05T17:00:00+00:00", "2024-01-08T09:00:00+00:00"),
        ("0 0 29 2 *", "2024-03-01T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        ("0 0 13 * fri", "2024-01-01T00:00:00+00:00", "2024-01-05T00:00:00+00:00"),
        ("0 0 31 * *", "2024-01-31T00:00:00+00:00", "2024-03-31T00:00:00+00:00"),
        ("@daily", "2024-02-28T12:00:00+00:00", "2024-02-29T00:00:00+00:00"),
        ("@weekly", "2024-01-01T00:00:00+00:00", "2024-01-07T00:00:00+00:00"),
        ("0 0 * * 7", "2024-01-01T00:00:00+00:00", "2024-01-07T00:00:00+00:00"),
        ("59 23 31 dec ?", "2024-01-01T00:00:00+00:00", "2024-12-31T23:59:00+00:00"),
        ("5/20 0 * * *", "2024-01-01T00:06:00+00:00", "2024-01-01T00:25:00+00:00"),
    ],
)
def test_the_next_time(expression: str, after: str, expected: str) -> None:
    assert following(expression, "UTC", after) == [expected]


def test_what_falls_into_the_gap_happens_once_when_it_ends() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2024-03-30T12:00:00+01:00", 2) == [
        "2024-03-31T03:00:00+02:00",
        "2024-04-01T02:30:00+02:00",
    ]


def test_what_falls_into_the_hour_that_comes_twice_happens_the_first_time() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00+02:00", 2) == [
        "2024-10-27T02:30:00+02:00",
        "2024-10-28T02:30:00+01:00",
    ]


def test_every_hour_goes_on_evenly() -> None:
    for after in ("2024-03-31T00:10:00+01:00", "2024-10-27T00:10:00+02:00"):
        cron, at = Cron("30 * * * *", "Europe/Berlin"), ms(after)
        for _ in range(8):
            before, at = at, cron.next_ms(at) or -1
            assert at - before in (20 * 60_000, 3_600_000)


@given(
    st.sampled_from(
        ["* * * * *", "*/7 */5 * * *", "15 3 * * *", "0 0 1 * *", "30 1,2 * * *", "0 12 * * mon", "*/30 * * * * *"]
    ),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.integers(ms("2023-01-01T00:00:00+00:00"), ms("2026-01-01T00:00:00+00:00")),
)
def test_the_next_time_is_later_and_the_first(expression: str, zone: str, after: int) -> None:
    cron = Cron(expression, zone)
    found = cron.next_ms(after)
    assert found is not None
    assert found > after
    # From any moment before it, it is the next one too.
    assert cron.next_ms(found - 1) == found
    assert cron.next_ms((after + found) // 2) == found or (after + found) // 2 >= found


@given(st.integers(ms("2024-03-29T00:00:00+00:00"), ms("2024-04-02T00:00:00+00:00")))
def test_against_a_search_of_every_minute(after: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    cron = Cron("*/20 5,6 * * *", "Europe/Berlin")
    at = datetime.fromtimestamp(after // 60_000 * 60, UTC)
    while True:
        at += timedelta(minutes=1)
        local = at.astimezone(zone)
        if local.hour in (5, 6) and local.minute % 20 == 0:
            break
    assert cron.next_ms(after) == int(at.timestamp() * 1000)


@pytest.mark.parametrize(
    "expression",
    ["", "*", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
     "5-1 * * * *", "*/0 * * * *", "*/x * * * *", "0 0 30 2 *", "1,,2 * * * *", "-1 * * * *", "٣ * * * *", "@never", "* " * 300],
)  # fmt: skip
def test_what_is_no_rule_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRecurrence):
        Cron(expression)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "a\0b"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidRecurrence):
        Cron("* * * * *", zone)
