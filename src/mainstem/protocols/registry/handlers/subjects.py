"""/subjects: registering, finding and deleting."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from mainstem.broker.schemas.errors import IncompatibleSchema, SchemaError
from mainstem.broker.schemas.schemas import (
    LATEST,
    Registered,
    Schema,
    Schemas,
    Subject,
    guid_of,
    identify,
    parse_subject,
    parse_version,
)
from mainstem.protocols.registry.errors import NotFound, Refusal
from mainstem.protocols.registry.handlers.paths import Call, Path
from mainstem.protocols.registry.mapping.documents import (
    describe_incompatibilities,
    describe_version,
    read_schema,
)
from mainstem.wire.http.messages import Response

EVERYWHERE = ":*:"
"""The prefix of subjects of every context."""
SUBJECTS_PAGE, VERSIONS_PAGE = 20_000, 10_000


class SubjectPaths:
    """/subjects."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def paths(self) -> list[Path]:
        """What is served here."""
        version = "/subjects/{}/versions/{}"
        return [
            Path("GET", "/subjects", self.list_subjects),
            Path("POST", "/subjects/{}", self.look_up),
            Path("DELETE", "/subjects/{}", self.delete_subject),
            Path("GET", "/subjects/{}/metadata", self.find_by_metadata),
            Path("GET", "/subjects/{}/versions", self.list_versions),
            Path("POST", "/subjects/{}/versions", self.register),
            Path("GET", version, self.get_version),
            Path("DELETE", version, self.delete_version),
            Path("GET", f"{version}/schema", self.get_text),
            Path("GET", f"{version}/referencedby", self.referenced_by),
        ]

    def list_subjects(self, call: Call) -> list[str]:
        """Their names, sorted."""
        found = subjects_with(self._schemas, call)
        return [str(subject) for subject in call.page(found, SUBJECTS_PAGE)]

    async def look_up(self, call: Call) -> Any:
        """The version that has a schema."""
        subject = call.subject(self._schemas)
        schema = self._resolve_latest(subject, read_schema(call.content()).schema)
        found = await self._schemas.find(
            subject, schema, normalize=call.is_set("normalize"), deleted=call.is_set("deleted")
        )
        return await self._describe(found, call)

    async def register(self, call: Call) -> Any:
        """A new version, or the one that has the schema."""
        subject = call.subject(self._schemas)
        new = read_schema(call.content())
        schema = self._resolve_latest(subject, new.schema)
        try:
            found = await self._schemas.register(
                subject, schema, normalize=call.is_set("normalize"), version=new.version, number=new.id
            )
        except IncompatibleSchema as error:
            texts = {one.version: one.schema.text for one in self._schemas.all_versions(subject)}
            details = describe_incompatibilities(error.found, texts, self._schemas.level_of(subject))
            raise Refusal(
                409,
                409,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
                f"details: [{', '.join(details)}]",
            ) from None
        if call.query.get("format"):
            return await self._describe(found, call)
        # The schema is left out: clients keep what they sent, in the form in which they sent it.
        return {"id": found.id, "version": found.version, "guid": guid_of(identify(found.schema))}

    async def delete_subject(self, call: Call) -> list[int]:
        """All versions; answers which."""
        return await self._schemas.delete_subject(call.subject(self._schemas), permanent=call.is_set("permanent"))

    async def delete_version(self, call: Call) -> int:
        """One version; answers its number."""
        subject, version = call.subject(self._schemas), parse_version(call.steps[1])
        return await self._schemas.delete_version(subject, version, permanent=call.is_set("permanent"))

    def list_versions(self, call: Call) -> list[int]:
        """Their numbers."""
        subject, only = call.subject(self._schemas), call.is_set("deletedOnly")
        known = self._schemas.table.versions(subject, deleted=only or call.is_set("deleted"))
        if only:
            known = [one.version for one in self._schemas.all_versions(subject, deleted=True) if one.is_deleted]
        return call.page(known, VERSIONS_PAGE)

    async def get_version(self, call: Call) -> Any:
        """One version."""
        return await self._describe(self._version(call), call)

    async def get_text(self, call: Call) -> Response:
        """The schema alone."""
        found = self._version(call)
        text = await self._schemas.text_in(found.subject.context, found.schema, call.query.get("format", ""))
        return Response(200, text.encode(), "application/json" if found.schema.format != "PROTOBUF" else "text/plain")

    def referenced_by(self, call: Call) -> list[int]:
        """Ids of schemas that refer to a version."""
        found = self._version(call)
        return self._schemas.table.referring(found.subject, found.version, deleted=call.is_set("deleted"))

    async def find_by_metadata(self, call: Call) -> Any:
        """The newest version whose metadata has these properties."""
        subject = call.subject(self._schemas)
        wanted = _properties(call)
        self._schemas.table.versions(subject, deleted=call.is_set("deleted"))
        for one in reversed(self._schemas.all_versions(subject, deleted=call.is_set("deleted"))):
            properties = (one.schema.metadata or {}).get("properties") or {}
            if all(properties.get(key) == value for key, value in wanted):
                return await self._describe(one, call)
        raise Refusal(404, 40402, f"no version of subject {str(subject)!r} has these properties")

    def _version(self, call: Call) -> Registered:
        return self._schemas.get(
            call.subject(self._schemas), parse_version(call.steps[1]), deleted=call.is_set("deleted")
        )

    def _resolve_latest(self, subject: Subject, schema: Schema) -> Schema:
        """With the version of each reference that names the newest."""
        if all(one.version != LATEST for one in schema.references):
            return schema
        resolved = []
        for one in schema.references:
            if one.version == LATEST:
                try:
                    version = self._schemas.get(parse_subject(one.subject, subject.context)).version
                except SchemaError as error:
                    raise Refusal(422, 42201, f"the reference {one.name!r} cannot be resolved: {error}") from None
                one = msgspec.structs.replace(one, version=version)
            resolved.append(one)
        return msgspec.structs.replace(schema, references=tuple(resolved))

    async def _describe(self, found: Registered, call: Call) -> dict[str, Any]:
        form = call.query.get("format", "")
        text = await self._schemas.text_in(found.subject.context, found.schema, form) if form else None
        return describe_version(found, text)


def subjects_with(schemas: Schemas, call: Call) -> list[Subject]:
    """Those that the parameters `subjectPrefix`, `deleted` and `deletedOnly` ask for."""
    prefix = call.query.get("subjectPrefix", EVERYWHERE)
    deleted, only = call.is_set("deleted"), call.is_set("deletedOnly")
    wanted = None if prefix == EVERYWHERE else parse_subject(prefix, call.context)
    table = schemas.table
    return sorted(
        subject
        for subject in table.subjects()
        if (wanted is None or (subject.context == wanted.context and subject.name.startswith(wanted.name)))
        and (table.has_versions(subject, deleted=deleted or only))
        and not (only and table.has_versions(subject))
    )


def _properties(call: Call) -> list[tuple[str, str]]:
    pairs = parse_qsl(call.request.query, max_num_fields=100)
    keys = [value for name, value in pairs if name == "key"]
    values = [value for name, value in pairs if name == "value"]
    if not keys or len(keys) != len(values):
        raise NotFound("the parameters key and value are given in pairs")
    return list(zip(keys, values, strict=True))
