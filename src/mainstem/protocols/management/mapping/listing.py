"""Lists as RabbitMQ gives them: in pages if asked for, sorted, with the columns that are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.broker.administration import InvalidEntry, check_pattern
from mainstem.protocols.management.errors import BadRequest

PAGE_ITEMS_MAX = 500
PAGE_ITEMS_DEFAULT = 100
REPETITIONS_MAX = 3
"""In a pattern that anybody may ask for: each multiplies the time by the length of a name."""

Row = dict[str, Any]


def listing(rows: Sequence[Row], query: Mapping[str, str]) -> Any:
    """As the query wants it. Raises BadRequest."""
    found = _named(rows, query)
    if query.get("sort"):
        steps = query["sort"].split(".")
        found = sorted(
            found, key=lambda row: _sortable(_value(row, steps)), reverse=query.get("sort_reverse") == "true"
        )
    columns = [column for column in query.get("columns", "").split(",") if column]
    if "page" not in query:
        return [_columns(row, columns) for row in found]
    page, size = _page(query)
    pages = max(1, -(-len(found) // size))
    if page > pages:
        raise BadRequest(f"page_out_of_range: page {page} of {pages}")
    items = found[(page - 1) * size : page * size]
    return {
        "filtered_count": len(found),
        "item_count": len(items),
        "items": [_columns(row, columns) for row in items],
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": len(rows),
    }


def one(row: Row, query: Mapping[str, str]) -> Row:
    """A single thing, with the columns that are wanted."""
    return _columns(row, [column for column in query.get("columns", "").split(",") if column])


def _named(rows: Sequence[Row], query: Mapping[str, str]) -> list[Row]:
    name = query.get("name", "")
    if not name:
        return list(rows)
    if query.get("use_regex") != "true":
        return [row for row in rows if name.lower() in str(row.get("name", "")).lower()]
    try:
        check_pattern(name)
    except InvalidEntry as error:
        raise BadRequest(str(error)) from None
    if name.count("*") + name.count("+") + name.count("{") > REPETITIONS_MAX:
        raise BadRequest(f"a pattern repeats at most {REPETITIONS_MAX} times")
    pattern = re.compile(name)
    return [row for row in rows if pattern.search(str(row.get("name", "")))]


def _page(query: Mapping[str, str]) -> tuple[int, int]:
    try:
        page, size = int(query["page"]), int(query.get("page_size", PAGE_ITEMS_DEFAULT))
    except ValueError:
        raise BadRequest("page and page_size are numbers") from None
    if page < 1 or not 1 <= size <= PAGE_ITEMS_MAX:
        raise BadRequest(f"page is at least 1, page_size at most {PAGE_ITEMS_MAX}")
    return page, size


def _value(row: Row, steps: Sequence[str]) -> Any:
    value: Any = row
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _sortable(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 0, 0, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, 0, str(value)


def _columns(row: Row, columns: Sequence[str]) -> Row:
    if not columns:
        return row
    shown: Row = {}
    for column in columns:
        steps = column.split(".")
        value = _value(row, steps)
        if value is None:
            continue
        place = shown
        for step in steps[:-1]:
            place = place.setdefault(step, {})
        place[steps[-1]] = value
    return shown
