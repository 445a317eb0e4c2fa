"""/config, /mode and /compatibility: what may be registered."""

from __future__ import annotations

from typing import Any, cast, get_args

import msgspec

from mainstem.broker.schemas.schemas import (
    Mode,
    Schemas,
    Subject,
    SubjectSettings,
    parse_version,
)
from mainstem.protocols.registry.errors import INVALID_MODE, NO_LEVEL, NO_MODE, Refusal
from mainstem.protocols.registry.handlers.paths import Call, Path
from mainstem.protocols.registry.mapping.documents import (
    describe_incompatibilities,
    describe_settings,
    read_schema,
    read_settings,
)

MODES = get_args(Mode)


class SettingPaths:
    """/config, /mode and /compatibility."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def paths(self) -> list[Path]:
        """What is served here; without a subject, a path is about the whole context."""
        found = [
            Path("POST", "/compatibility/subjects/{}/versions/{}", self.check_version),
            Path("POST", "/compatibility/subjects/{}/versions", self.check),
        ]
        for subject in ("", "/{}"):
            found += [
                Path("GET", f"/config{subject}", self.get_config),
                Path("PUT", f"/config{subject}", self.put_config),
                Path("DELETE", f"/config{subject}", self.delete_config),
                Path("GET", f"/mode{subject}", self.get_mode),
                Path("PUT", f"/mode{subject}", self.put_mode),
                Path("DELETE", f"/mode{subject}", self.delete_mode),
            ]
        return found

    # Compatibility

    async def check(self, call: Call) -> dict[str, Any]:
        """Whether a schema could be registered."""
        return await self._check(call, None)

    async def check_version(self, call: Call) -> dict[str, Any]:
        """Whether a schema is compatible with one version."""
        version = parse_version(call.steps[1])
        return await self._check(call, self._schemas.get(call.subject(self._schemas), version).version)

    async def _check(self, call: Call, version: int | None) -> dict[str, Any]:
        subject = call.subject(self._schemas)
        level = self._schemas.level_of(subject)
        schema = read_schema(call.content()).schema
        found = await self._schemas.check(subject, schema, normalize=call.is_set("normalize"), version=version)
        document: dict[str, Any] = {"is_compatible": not found}
        if call.is_set("verbose"):
            texts = {one.version: one.schema.text for one in self._schemas.all_versions(subject)}
            document["messages"] = describe_incompatibilities(found, texts, level)
        return document

    # Levels

    def get_config(self, call: Call) -> dict[str, Any]:
        """What is set for a subject, or for all."""
        place = self._place(call)
        settings = self._schemas.table.own_settings(place)
        if describe_settings(settings, "") == {}:
            if place.name and not call.is_set("defaultToGlobal"):
                sentence = f"subject {str(place)!r} has no configuration of its own"
                raise Refusal(404, NO_LEVEL, sentence)
        if settings.level is None and (not place.name or call.is_set("defaultToGlobal")):
            settings = msgspec.structs.replace(settings, level=self._schemas.level_of(place).value)
        return describe_settings(settings, "compatibilityLevel")

    async def put_config(self, call: Call) -> dict[str, Any]:
        """Set it; what is not named stays."""
        content = call.content()
        place = self._place(call)
        await self._schemas.change_settings(place, lambda before: read_settings(content, before))
        return {key: value for key, value in content.items() if value is not None}

    async def delete_config(self, call: Call) -> dict[str, Any]:
        """What holds for all holds again; answers what was set."""
        place = self._place(call)
        before = self._schemas.table.own_settings(place)
        if place.name and describe_settings(before, "") == {}:
            raise Refusal(404, 40401, f"subject {str(place)!r} has no configuration of its own")
        before = await self._schemas.change_settings(place, lambda settings: SubjectSettings(mode=settings.mode))
        if before.level is None:
            before = msgspec.structs.replace(before, level=self._schemas.level_of(place).value)
        return describe_settings(before, "compatibilityLevel")

    # Modes

    def get_mode(self, call: Call) -> dict[str, Any]:
        """What may be done with a subject, or with all."""
        place = self._place(call)
        own = self._schemas.table.own_settings(place).mode
        if own is None and place.name and not call.is_set("defaultToGlobal"):
            raise Refusal(404, NO_MODE, f"subject {str(place)!r} has no mode of its own")
        return {"mode": own or self._schemas.mode_of(place)}

    async def put_mode(self, call: Call) -> dict[str, Any]:
        """Set it."""
        mode = call.content().get("mode")
        if mode not in MODES:
            raise Refusal(422, INVALID_MODE, f"the mode is none of {', '.join(MODES)}")
        await self._schemas.set_mode(self._place(call), cast(Mode, mode), force=call.is_set("force"))
        return {"mode": mode}

    async def delete_mode(self, call: Call) -> dict[str, Any]:
        """What holds for all holds again; answers what was set."""
        place = self._place(call)
        own = self._schemas.table.own_settings(place).mode
        if own is None and place.name:
            raise Refusal(404, 40401, f"subject {str(place)!r} has no mode of its own")
        before = await self._schemas.change_settings(
            place, lambda settings: msgspec.structs.replace(settings, mode=None)
        )
        return {"mode": before.mode or self._schemas.mode_of(place)}

    def _place(self, call: Call) -> Subject:
        return call.own_subject() if call.steps else Subject(call.context, "")
