"""A JSON Schema that was read."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, specification_with

from mainstem.wire.schemas.json_schema.comparison import compare_json
from mainstem.wire.schemas.json_schema.nodes import Document, Place
from mainstem.wire.schemas.schema import Difference, InvalidSchema, Texts, unknown_form

OWN_URI = "mainstem:schema"
DEPTH_MAX = 60
"""Of objects and lists within each other: the libraries that look at a schema do not survive the end of the stack."""


class JsonSchema:
    """See `schema.Parsed`."""

    def __init__(self, text: str, texts: Texts) -> None:
        self.content = _decode(text)
        _check(self.content)
        self.canonical = _encode(self.content, is_sorted=False)
        self.normal = _encode(self.content, is_sorted=True)
        registry: Any = Registry()
        for name, used in texts.items():
            registry = registry.with_resource(name, _resource(_decode(used)))
        own = _resource(self.content)
        uri = own.id() or OWN_URI
        registry = registry.with_resource(uri, own)
        self.registry: Any = registry
        try:
            self.root = Place(self.content, registry.resolver(uri), Document())
            self.root.check_references()
        except Unresolvable as error:
            raise InvalidSchema(f"the reference {error.ref!r} leads nowhere") from None
        except ValueError as error:
            raise InvalidSchema(f"an address in it cannot be read: {error}") from None

    def text_in(self, form: str) -> str:
        """There is no other form."""
        raise unknown_form(form)

    def differences(self, written: JsonSchema) -> list[Difference]:
        """By Confluent's rules of content models."""
        return compare_json(self.root, written.root)


def _decode(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"not JSON: {error}") from None


def _is_deeper(content: Any, depth_max: int) -> bool:
    level = [content]
    for _ in range(depth_max + 1):
        inner: list[Any] = []
        for one in level:
            inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if not inner:
            return False
        level = inner
    return True


def _encode(content: Any, *, is_sorted: bool) -> str:
    try:
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=is_sorted)
    except ValueError:
        raise InvalidSchema("a number in it is too large") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not part of it")


def _check(content: Any) -> None:
    if not isinstance(content, dict | bool):
        raise InvalidSchema("a JSON Schema is an object or a boolean")
    if _is_deeper(content, DEPTH_MAX):
        raise InvalidSchema(f"objects and lists are nested more than {DEPTH_MAX} deep")
    if isinstance(content, dict) and not isinstance(content.get("$schema", ""), str):
        raise InvalidSchema("$schema is not text")
    try:
        validator: Any = validator_for(content, default=Draft7Validator)
        validator.check_schema(content)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise InvalidSchema(f"not a JSON Schema, at #/{place}: {error.message[:300]}") from None


def _resource(content: Any) -> Resource[Any]:
    dialect = content.get("$schema") if isinstance(content, dict) else None
    specification = specification_with(dialect, default=DRAFT7) if isinstance(dialect, str) else DRAFT7
    return specification.create_resource(content)
