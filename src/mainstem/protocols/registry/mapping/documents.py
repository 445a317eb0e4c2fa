"""Schemas and settings as the registry's documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstem.broker.schemas.schemas import (
    Incompatibility,
    Level,
    Reference,
    Registered,
    Schema,
    SubjectSettings,
    guid_of,
    identify,
)
from mainstem.protocols.registry.errors import INVALID_LEVEL, INVALID_SCHEMA, Refusal, Unprocessable
from mainstem.wire.schemas.formats import CONFLUENT_FORMATS
from mainstem.wire.schemas.schema import AVRO

WITHOUT_EFFECT = (
    "validateFields", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet", "compatibilityPolicy",
)  # fmt: skip
"""Parts of a configuration that Confluent's registry has and this one refuses."""
UNKNOWN_PARTS = ("schemaTagsToAdd", "schemaTagsToRemove")
SETTING_PARTS = {"compatibility", "compatibilityLevel", "normalize", "compatibilityGroup", "alias"}


class NewSchema(msgspec.Struct, frozen=True):
    """What a client registers or looks for."""

    schema: Schema
    id: int | None
    version: int | None


def read_schema(content: dict[str, Any]) -> NewSchema:
    """From the content of a request. Raises Refusal."""
    text = content.get("schema")
    if not isinstance(text, str) or not text:
        raise Refusal(422, INVALID_SCHEMA, "the schema is empty")
    kind = content.get("schemaType") or AVRO
    if not isinstance(kind, str) or kind.upper() not in CONFLUENT_FORMATS:
        raise Refusal(422, INVALID_SCHEMA, f"the schemaType {kind!r} is not known: {', '.join(CONFLUENT_FORMATS)} are")
    for name in UNKNOWN_PARTS:
        if content.get(name):
            raise Unprocessable(f"{name} is not supported")
    try:
        references = tuple(
            Reference(**msgspec.convert(one, _Reference).parts()) for one in content.get("references") or ()
        )
        parts = msgspec.convert(content, _Parts)
        msgspec.msgpack.encode((parts.metadata, parts.ruleSet))
    except (msgspec.ValidationError, TypeError, OverflowError, RecursionError) as error:
        raise Unprocessable(f"the request cannot be read: {error}") from None
    metadata = None if parts.metadata is None else msgspec.to_builtins(parts.metadata)
    schema = Schema(kind.upper(), text, references, metadata or None, parts.ruleSet or None)
    return NewSchema(schema, _given(parts.id), _given(parts.version))


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int

    def parts(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


class _Metadata(msgspec.Struct, omit_defaults=True):
    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class _Parts(msgspec.Struct):
    id: int | None = None
    version: int | None = None
    metadata: _Metadata | None = None
    ruleSet: dict[str, list[dict[str, Any]] | str | bool | None] | None = None  # noqa: N815 - their word


def _given(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None


def describe_schema(schema: Schema, text: str | None = None) -> dict[str, Any]:
    """Without what it is registered under."""
    document: dict[str, Any] = {} if schema.format == AVRO else {"schemaType": schema.format}
    document["schema"] = schema.text if text is None else text
    if schema.references:
        document["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    if schema.metadata:
        document["metadata"] = schema.metadata
    if schema.rules:
        document["ruleSet"] = schema.rules
    return document


def describe_version(found: Registered, text: str | None = None) -> dict[str, Any]:
    """A version of a subject."""
    document = {
        "subject": str(found.subject),
        "version": found.version,
        "id": found.id,
        "guid": guid_of(identify(found.schema)),
        **describe_schema(found.schema, text),
    }
    return {**document, "deleted": True} if found.is_deleted else document


def describe_settings(settings: SubjectSettings, word: str) -> dict[str, Any]:
    """`word` is `compatibility` or `compatibilityLevel`: the registry uses both."""
    document: dict[str, Any] = {}
    if settings.alias is not None:
        document["alias"] = settings.alias
    if settings.normalize is not None:
        document["normalize"] = settings.normalize
    if settings.level is not None:
        document[word] = settings.level
    if settings.group is not None:
        document["compatibilityGroup"] = settings.group
    return document


def read_settings(content: dict[str, Any], before: SubjectSettings) -> SubjectSettings:
    """What is set is changed, the rest stays. Raises Refusal, Unprocessable."""
    for name, value in content.items():
        if name in WITHOUT_EFFECT and value not in (None, {}):
            raise Unprocessable(f"{name} is not supported")
        if name not in SETTING_PARTS and name not in WITHOUT_EFFECT:
            raise Unprocessable(f"{name} is not known")
    level = content.get("compatibility", content.get("compatibilityLevel"))
    normalize = content.get("normalize")
    if level is not None:
        level = level.upper() if isinstance(level, str) else ""
        if level not in LEVELS:
            raise Refusal(422, INVALID_LEVEL, f"the level of compatibility is none of {', '.join(LEVELS)}")
    if normalize is not None and not isinstance(normalize, bool):
        raise Unprocessable("normalize is not true or false")
    group, alias = content.get("compatibilityGroup"), content.get("alias")
    if not isinstance(group, str | None) or not isinstance(alias, str | None):
        raise Unprocessable("compatibilityGroup and alias are texts")
    return msgspec.structs.replace(
        before,
        level=before.level if level is None else level,
        normalize=before.normalize if normalize is None else normalize,
        group=before.group if group is None else group or None,
        alias=before.alias if alias is None else alias or None,
    )


LEVELS = [level.value for level in Level if level is not Level.ALWAYS_INCOMPATIBLE]


def describe_incompatibilities(found: Sequence[Incompatibility], old_texts: dict[int, str], level: Level) -> list[str]:
    """What a client shows its user."""
    messages = []
    for one in found:
        old, new = ("reader", "written") if one.is_forward else ("written", "reader")
        part = f"the older schema is the {old} one, the newer the {new} one" if one.is_forward else ""
        description = f"{one.difference.sentence}{'; ' + part if part else ''}"
        messages.append(
            f"{{errorType:'{one.difference.kind}', description:'{description}', "
            f"additionalInfo:'{one.difference.path}'}}"
        )
    for version in sorted({one.version for one in found}):
        messages.append(f"{{oldSchemaVersion: {version}}}")
        messages.append(f"{{oldSchema: '{old_texts.get(version, '')}'}}")
    if found:
        messages.append(f"{{compatibility: '{level.value}'}}")
    return messages
