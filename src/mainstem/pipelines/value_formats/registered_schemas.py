"""Schemas from the broker's registry, fetched where they are needed: by the driver that plans, and by each executor."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from mainstem.pipelines.errors import InvalidOption
from mainstem.sdk.http_api import ApiRefused, ask, path_of
from mainstem.wire.schemas.schema import AVRO, REFERENCES_MAX

ROOT = "/registry"
MISSING = 404


class RegisteredSchema(NamedTuple):
    """A schema with the texts of all that it refers to, by the names that it has for them."""

    format: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


def newest_schemas(address: str, subject: str) -> list[RegisteredSchema]:
    """Of all versions of a subject, the newest first; fetched as they are asked for. Raises InvalidOption."""
    try:
        numbers = ask(address, "GET", f"{ROOT}{path_of('subjects', subject, 'versions')}")
    except ApiRefused as error:
        if error.status != MISSING:
            raise
        raise InvalidOption(
            f"With value.format registry the subject {subject!r} is needed, and nothing is registered there: name another "
            "one in the option `value.schema`."
        ) from None
    found = [_version(address, subject, number) for number in reversed(numbers[-VERSIONS_MAX:])]
    return [_complete(address, one) for one in found]


VERSIONS_MAX = 100
"""Of the newest, this number is looked at."""


def newest_avro(address: str, subject: str) -> tuple[int, str]:
    """The id and the text of the newest schema of a subject. Raises InvalidOption where it is none of Avro's."""
    try:
        found = ask(address, "GET", f"{ROOT}{path_of('subjects', subject, 'versions', 'latest')}")
    except ApiRefused as error:
        if error.status != MISSING:
            raise
        raise InvalidOption(
            f"To write with value.format registry a schema is needed, and nothing is registered as {subject!r}: register one, "
            "or name another subject in the option `value.schema`."
        ) from None
    if found.get("schemaType", AVRO) != AVRO:
        raise InvalidOption(
            f"Values are written with Avro's schemas, and {subject!r} has one of {found['schemaType']}."
        )
    return found["id"], _complete(address, found).text


@functools.lru_cache(maxsize=10_000)
def schema_by_id(address: str, number: int) -> RegisteredSchema | None:
    """What a record names; None where nothing has this id."""
    try:
        found = ask(address, "GET", f"{ROOT}/schemas/ids/{number}")
    except ApiRefused as error:
        if error.status != MISSING:
            raise
        return None
    return _complete(address, found | {"id": number})


def _version(address: str, subject: str, number: int) -> dict[str, Any]:
    path = path_of("subjects", subject, "versions", str(number))
    found: dict[str, Any] = ask(address, "GET", f"{ROOT}{path}?deleted=true")
    return found


def _complete(address: str, found: dict[str, Any]) -> RegisteredSchema:
    kind = found.get("schemaType", AVRO)
    if kind == AVRO:
        if found.get("references"):
            found = ask(address, "GET", f"{ROOT}/schemas/ids/{found['id']}?format=resolved")
        return RegisteredSchema(kind, found["schema"])
    texts: dict[str, str] = {}
    _gather(address, found, texts)
    return RegisteredSchema(kind, found["schema"], tuple(texts.items()))


def _gather(address: str, found: dict[str, Any], texts: dict[str, str]) -> None:
    for one in found.get("references", ()):
        if one["name"] not in texts and len(texts) < REFERENCES_MAX:
            used = _version(address, one["subject"], one["version"])
            _gather(address, used, texts)
            texts[one["name"]] = used["schema"]
