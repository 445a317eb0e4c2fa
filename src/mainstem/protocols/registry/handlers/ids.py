"""/schemas: schemas by id, and what formats there are."""

from __future__ import annotations

from typing import Any

from mainstem.broker.schemas.schemas import SchemaEntry, Schemas, guid_of
from mainstem.protocols.registry.errors import Unprocessable
from mainstem.protocols.registry.handlers.paths import Call, Path
from mainstem.protocols.registry.handlers.subjects import subjects_with
from mainstem.protocols.registry.mapping.documents import describe_schema, describe_version
from mainstem.wire.http.messages import Response
from mainstem.wire.schemas.formats import CONFLUENT_FORMATS
from mainstem.wire.schemas.schema import PROTOBUF

SCHEMAS_PAGE = 1_000


class IdPaths:
    """/schemas."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/schemas", self.list_schemas),
            Path("GET", "/schemas/types", lambda call: list(CONFLUENT_FORMATS)),
            Path("GET", "/schemas/ids/{}", self.get_schema),
            Path("GET", "/schemas/ids/{}/schema", self.get_text),
            Path("GET", "/schemas/ids/{}/subjects", self.list_subjects),
            Path("GET", "/schemas/ids/{}/versions", self.list_versions),
            Path("GET", "/schemas/guids/{}", self.get_by_guid),
            Path("GET", "/schemas/guids/{}/ids", self.list_ids),
        ]

    def list_schemas(self, call: Call) -> list[dict[str, Any]]:
        """All versions of all subjects, or the newest of each."""
        newest, deleted = call.is_set("latestOnly"), call.is_set("deleted")
        found = []
        for subject in subjects_with(self._schemas, call):
            versions = self._schemas.all_versions(subject, deleted=deleted)
            found += versions[-1:] if newest else versions
        return [describe_version(one) for one in call.page(found, SCHEMAS_PAGE)]

    async def get_schema(self, call: Call) -> dict[str, Any]:
        """A schema by its id."""
        context, _, entry = self._entry(call)
        document = await self._describe(context, entry, call)
        if call.is_set("fetchMaxId"):
            document["maxId"] = self._schemas.table.last_id(context)
        return document

    async def get_text(self, call: Call) -> Response:
        """The schema alone."""
        context, _, entry = self._entry(call)
        text = await self._schemas.text_in(context, entry.schema, call.query.get("format", ""))
        return Response(200, text.encode(), "application/json" if entry.format != PROTOBUF else "text/plain")

    def list_subjects(self, call: Call) -> list[str]:
        """Those that have a schema."""
        return call.page(sorted({one["subject"] for one in self._uses(call)}), SCHEMAS_PAGE)

    def list_versions(self, call: Call) -> list[dict[str, Any]]:
        """Subjects and versions that have a schema."""
        return call.page(self._uses(call), SCHEMAS_PAGE)

    async def get_by_guid(self, call: Call) -> dict[str, Any]:
        """A schema by the name that it has in every context."""
        context, number = self._schemas.table.by_guid(call.steps[0])[0]
        return await self._describe(context, self._schemas.by_id(context, number), call)

    def list_ids(self, call: Call) -> list[dict[str, Any]]:
        """The ids of a schema, by context."""
        found = self._schemas.table.by_guid(call.steps[0])
        return [{"context": context, "id": number} for context, number in found]

    async def _describe(self, context: str, entry: SchemaEntry, call: Call) -> dict[str, Any]:
        form = call.query.get("format", "")
        text = await self._schemas.text_in(context, entry.schema, form) if form else None
        return {"guid": guid_of(entry.identity), **describe_schema(entry.schema, text)}

    def _entry(self, call: Call) -> tuple[str, int, SchemaEntry]:
        if not call.steps[0].isascii() or not call.steps[0].isdecimal() or len(call.steps[0]) > 12:
            raise Unprocessable(f"{call.steps[0]!r} is not an id")
        number = int(call.steps[0])
        context = call.own_subject(call.query["subject"]).context if call.query.get("subject") else call.context
        return context, number, self._schemas.by_id(context, number)

    def _uses(self, call: Call) -> list[dict[str, Any]]:
        context, number, _ = self._entry(call)
        wanted = call.query.get("subject", "")
        name = call.own_subject(wanted).name if wanted else ""
        return [
            {"subject": str(subject), "version": version}
            for subject, version in self._schemas.table.uses(context, number, deleted=call.is_set("deleted"))
            if not name or subject.name == name
        ]
