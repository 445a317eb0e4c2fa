"""Cron expressions: when something happens again.

Five fields (minute, hour, day of month, month, day of week), or six with seconds before them. A field is `*`, a value, a
range `a-b`, any of these with a step `/n`, or several with commas; months and days have English names of three letters,
Sunday is 0 or 7, `?` is `*`. When both days are given, either is enough. `@hourly`, `@daily` (`@midnight`), `@weekly`,
`@monthly`, `@yearly` (`@annually`) are there too.

Times are those of a clock on the wall in the given zone. Where that clock jumps ahead, what falls into the gap happens once,
when the gap ends; where it is set back, what falls into the hour that comes twice happens the first time only. A rule for every
hour is meant to go on evenly: it leaves the gap out, and happens in both of the hours.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mainstem.coordination.schedules.errors import InvalidRecurrence

EXPRESSION_CHARACTERS_MAX = 256
YEARS_AHEAD_MAX = 30
"""29 February on a Monday comes every 28 years; what does not come within these never does."""

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("second", 0, 59, {}),
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)
_SHIFT = timedelta(hours=3)
"""More than any zone has ever moved its clocks at once, but for a few that changed their date."""


class Cron:
    """One expression in one zone. Raises InvalidRecurrence when either is none."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self.expression = expression
        self.zone = zone
        self._zone = _find_zone(zone)
        seconds, minutes, hours, days, months, weekdays = _parse(expression)
        self._seconds, self._minutes, self._hours = sorted(seconds), sorted(minutes), sorted(hours)
        self._days, self._months = days, months
        self._weekdays = {day % 7 for day in weekdays}
        self._any_day = len(days) == 31
        self._any_weekday = len(self._weekdays) == 7
        self._is_hourly = len(hours) == 24
        if self._next_date(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a wall clock has no zone
            raise InvalidRecurrence(f"{expression!r} never happens")

    def next_ms(self, after_ms: int) -> int | None:
        """The first time after this one; None when there is none within `YEARS_AHEAD_MAX`."""
        after = datetime.fromtimestamp(after_ms // 1000, UTC)
        found = self._next_even(after) if self._is_hourly else self._next_fixed(after)
        return None if found is None else int(found.timestamp()) * 1000

    def _next_even(self, after: datetime) -> datetime | None:
        """Of a rule for every hour: whatever the clock on the wall does, time goes on."""
        at = after + timedelta(seconds=1)
        last_year = min(at.year + YEARS_AHEAD_MAX, 9998)
        while at.year <= last_year:
            wall = at.astimezone(self._zone).replace(tzinfo=None)
            midnight = wall.replace(hour=0, minute=0, second=0)
            if midnight.month not in self._months or not self._is_day(midnight):
                date = self._next_date(midnight + timedelta(days=1))
                if date is None:
                    return None
                at = max(at + timedelta(seconds=1), date.replace(tzinfo=self._zone).astimezone(UTC))
            elif wall.minute not in self._minutes:
                at += timedelta(seconds=60 - wall.second)
            elif wall.second not in self._seconds:
                at += timedelta(seconds=1)
            else:
                return at
        return None

    def _next_fixed(self, after: datetime) -> datetime | None:
        """Of a rule for certain hours: as the clock on the wall has it, which may be before and behind a jump."""
        local = after.astimezone(self._zone)
        ahead = (after + _SHIFT).astimezone(self._zone)
        steady = (after - _SHIFT).astimezone(self._zone).utcoffset() == local.utcoffset() == ahead.utcoffset()
        first_wall = local.replace(tzinfo=None)
        best: datetime | None = None
        for wall in self._walls(first_wall if steady else first_wall - _SHIFT):
            if best is not None and wall - best.astimezone(self._zone).replace(tzinfo=None) > _SHIFT:
                break
            found = self._instant(wall)
            if found > after and (best is None or found < best):
                best = found
            if best is not None and steady and best - after < _SHIFT:
                break
        return best

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """Times on the wall, from `after` (not included) on."""
        date = after.replace(hour=0, minute=0, second=0, microsecond=0)
        last_year = after.year + YEARS_AHEAD_MAX
        while True:
            day = self._next_date(date)
            if day is None or day.year > last_year:
                return
            for hour in self._hours:
                if day.date() == after.date() and hour < after.hour:
                    continue
                for minute in self._minutes:
                    for second in self._seconds:
                        wall = day.replace(hour=hour, minute=minute, second=second)
                        if wall > after:
                            yield wall
            if day.year >= 9999:
                return
            date = day + timedelta(days=1)

    def _next_date(self, date: datetime) -> datetime | None:
        """The first date at or after this one."""
        last_year = min(date.year + YEARS_AHEAD_MAX, 9998)
        while date.year <= last_year:
            if date.month not in self._months:
                date = (date.replace(day=1) + timedelta(days=32)).replace(day=1)
            elif not self._is_day(date):
                date += timedelta(days=1)
            else:
                return date
        return None

    def _is_day(self, date: datetime) -> bool:
        in_month, in_week = date.day in self._days, date.isoweekday() % 7 in self._weekdays
        if self._any_day or self._any_weekday:
            return in_month and in_week
        return in_month or in_week

    def _instant(self, wall: datetime) -> datetime:
        """When the clock on the wall shows this for the first time, or jumps over it."""
        early, late = (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        return early if early <= late else self._gap_end(late, early)

    def _gap_end(self, before: datetime, behind: datetime) -> datetime:
        """When the clock jumped, between two times."""
        offset = before.astimezone(self._zone).utcoffset()
        while behind - before > timedelta(seconds=1):
            middle = before + (behind - before) // 2
            middle = middle.replace(microsecond=0)
            if middle.astimezone(self._zone).utcoffset() == offset:
                before = max(middle, before + timedelta(seconds=1))
            else:
                behind = middle
        return behind


def _find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRecurrence(f"{name!r} is not a time zone") from None


def _parse(expression: str) -> list[set[int]]:
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise InvalidRecurrence(f"a cron expression has at most {EXPRESSION_CHARACTERS_MAX} characters")
    text = _MACROS.get(expression.strip().lower(), expression)
    parts = text.split()
    if len(parts) == len(_FIELDS) - 1:
        parts.insert(0, "0")
    if len(parts) != len(_FIELDS):
        raise InvalidRecurrence(f"{expression!r} has {len(parts)} fields; a cron expression has 5, or 6 with seconds")
    return [_parse_field(field, part) for field, part in zip(_FIELDS, parts, strict=True)]


def _parse_field(field: _Field, text: str) -> set[int]:
    values: set[int] = set()
    for part in text.lower().split(","):
        stretch, slash, step_text = part.partition("/")
        step = 1
        if slash:
            if not step_text.isascii() or not step_text.isdecimal() or int(step_text[:9]) < 1:
                raise InvalidRecurrence(f"{field.name}: {step_text!r} is not a step")
            step = int(step_text[:9])
        if stretch in ("*", "?"):
            low, high = field.low, field.high - (field.name == "day of week")
        else:
            low_text, dash, high_text = stretch.partition("-")
            low = _parse_value(field, low_text)
            high = _parse_value(field, high_text) if dash else field.high if slash else low
            if high < low:
                raise InvalidRecurrence(f"{field.name}: {stretch!r} ends before it begins")
        values.update(range(low, high + 1, step))
    return values


def _parse_value(field: _Field, text: str) -> int:
    named = field.names.get(text)
    if named is not None:
        return named
    if not text.isascii() or not text.isdecimal() or not field.low <= int(text[:9]) <= field.high:
        raise InvalidRecurrence(f"{field.name}: {text!r} is not between {field.low} and {field.high}")
    return int(text)
