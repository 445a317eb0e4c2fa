"""The store of schemas: what adapters register with, find in and compare by.

A subject is a name with versions; what is registered for the values of topic `orders` is by custom the subject `orders-value`
(`subject_of_topic`). For an adapter with schemas of its own:

    register(subject, schema, level=...)     a version, the one that has the schema already or a new one, once it is durable
    find(subject, schema)                    the version that has the schema
    get(subject, version), all_versions      what was registered, by rising version from 1
    by_id(context, id)                       a schema by the number that records carry
    check(subject, schema, level=...)        what stands against it

All that reads or compares texts is done by the thread of heavy work, in the order in which it was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.schemas.parsing import ParsedSchemas, Source
from mainstem.coordination.schemas.entries import (
    DEFAULT_CONTEXT,
    SCOPE,
    Mode,
    SchemaEntry,
    Subject,
    SubjectSettings,
    parse_subject,
)
from mainstem.coordination.schemas.errors import (
    IncompatibleSchema,
    InvalidSetting,
    NotPermitted,
    SchemaError,
    UnknownSchema,
    UnknownSubject,
)
from mainstem.coordination.schemas.registry import (
    LATEST,
    Registered,
    SchemaTable,
    effective_mode,
    guid_of,
    identify,
    parse_version,
)
from mainstem.storage.contract import Engine, Mutation
from mainstem.wire.schemas.levels import Incompatibility, Level, Older, check_level
from mainstem.wire.schemas.schema import REFERENCES_MAX, InvalidSchema, Reference, Schema, Texts

__all__ = [
    "DEFAULT_CONTEXT",
    "LATEST",
    "SUBJECTS_MAX",
    "Incompatibility",
    "InvalidSchema",
    "Level",
    "Mode",
    "Reference",
    "Registered",
    "Schema",
    "SchemaEntry",
    "SchemaError",
    "Schemas",
    "Subject",
    "SubjectSettings",
    "guid_of",
    "identify",
    "parse_subject",
    "parse_version",
    "subject_of_topic",
]

DEFAULT_LEVEL = Level.BACKWARD
SUBJECTS_MAX = 100_000
VERSIONS_MAX = 10_000
"""Of one subject."""
SOURCES_BYTES_MAX = 32 << 20
"""Of all the texts that one request compares."""


def subject_of_topic(namespace: str, topic: str, *, is_key: bool = False) -> Subject:
    """Where the schema of a topic's values, or keys, is by custom. A namespace is a context."""
    context = DEFAULT_CONTEXT if namespace == DEFAULT_NAMESPACE else f".{namespace.replace(':', '_').replace('/', '_')}"
    return Subject(context, f"{topic}-{'key' if is_key else 'value'}")


class Schemas:
    """By subject, version and id."""

    def __init__(self, engine: Engine, clock: Clock, heavy_work: HeavyWork) -> None:
        self._engine = engine
        self._clock = clock
        self._heavy_work = heavy_work
        self._parsed = ParsedSchemas()
        self._table = SchemaTable()
        self._changes_lock = asyncio.Lock()
        self.table: SchemaTable = self._table
        """For questions."""

    async def load(self) -> None:
        """Take back what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._table.replay(key, value)

    # Questions

    def get(self, subject: Subject, version: int = LATEST, *, deleted: bool = False) -> Registered:
        """A version. Raises UnknownSubject, UnknownVersion."""
        return self._table.get(subject, version, deleted=deleted)

    def all_versions(self, subject: Subject, *, deleted: bool = False) -> list[Registered]:
        """By rising number; none of an unknown subject."""
        return self._table.all_versions(subject, deleted=deleted)

    def by_id(self, context: str, number: int) -> SchemaEntry:
        """A schema. Raises UnknownSchema."""
        return self._table.by_id(context, number)

    def level_of(self, subject: Subject) -> Level:
        """What holds for a subject: its own level, its context's, that of all."""
        level = self._setting(subject, lambda settings: settings.level)
        return DEFAULT_LEVEL if level is None else Level(level)

    def mode_of(self, subject: Subject) -> Mode:
        """What holds for a subject."""
        return effective_mode(self._table, subject)

    def texts_of(self, context: str, schema: Schema) -> Texts:
        """Texts of all schemas that one uses, those that use none first. Raises InvalidSchema."""
        texts: dict[str, str] = {}
        self._gather(context, schema, texts, set())
        return texts

    async def text_in(self, context: str, schema: Schema, form: str) -> str:
        """A text in another form: `resolved` for Avro, `serialized` for Protobuf. Raises InvalidSchema."""
        if not form:
            return schema.text
        source = self._source(context, schema)
        return await self._heavy_work.run(lambda: self._parsed.get(source).text_in(form))

    async def find(
        self, subject: Subject, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> Registered:
        """The version that has this schema. Raises UnknownSubject, UnknownSchema, InvalidSchema."""
        if not self._table.has_versions(subject, deleted=deleted):
            raise UnknownSubject(f"there is no subject {str(subject)!r}")
        canonical = await self._canonical(subject, schema, normalize=normalize)
        found = self._table.find(subject, identify(canonical), deleted=deleted)
        if found is None:
            raise UnknownSchema(f"subject {str(subject)!r} has no such schema")
        return found

    async def check(
        self,
        subject: Subject,
        schema: Schema,
        *,
        normalize: bool = False,
        level: Level | None = None,
        version: int | None = None,
    ) -> list[Incompatibility]:
        """What stands against registering it, or against this one version. Raises InvalidSchema, UnknownVersion."""
        canonical = await self._canonical(subject, schema, normalize=normalize)
        against = self.all_versions(subject) if version is None else [self.get(subject, version)]
        return await self._compare(subject, canonical, against, level or self.level_of(subject))

    # Changes

    async def register(
        self,
        subject: Subject,
        schema: Schema,
        *,
        normalize: bool = False,
        level: Level | None = None,
        version: int | None = None,
        number: int | None = None,
        note: bytes = b"",
    ) -> Registered:
        """The version that has this schema; a new one where none has, durable when answered.

        `level` is in place of what is set for the subject; `version` and `number` (the id) are for schemas that are imported.
        Raises InvalidSchema, IncompatibleSchema and other kinds of SchemaError.
        """
        canonical = await self._canonical(subject, schema, normalize=normalize)
        identity = identify(canonical)
        is_import = number is not None or version is not None
        found = self._table.find(subject, identity)
        if found is not None and not is_import:
            return found
        async with self._changes_lock:
            found = self._table.find(subject, identity)
            if found is not None and (number in (None, found.id)) and (version in (None, found.version)):
                return found
            self._check_mode(subject, is_import=is_import)
            self._check_room(subject)
            if self.mode_of(subject) != "IMPORT":
                against = await self._compare(
                    subject, canonical, self.all_versions(subject), level or self.level_of(subject)
                )
                if against:
                    raise IncompatibleSchema(str(subject), against)
            decided = self._table.decide_register(
                subject, canonical, self._clock.now_ms(), version=version, number=number, note=note
            )
            await self._store(decided.mutations)
            return self._table.get(subject, decided.version)

    async def delete_version(self, subject: Subject, version: int, *, permanent: bool = False) -> int:
        """It is not there any more, or for good; durable when answered. Answers its number."""
        async with self._changes_lock:
            self._check_writable(subject)
            if version == LATEST:
                version = self._table.versions(subject, deleted=permanent)[-1]
            await self._store(self._table.decide_delete_version(subject, version, permanent=permanent))
            return version

    async def delete_subject(self, subject: Subject, *, permanent: bool = False) -> list[int]:
        """All its versions go; durable when answered. Answers their numbers."""
        async with self._changes_lock:
            self._check_writable(subject)
            state, gone = self._table.decide_delete_subject(subject, permanent=permanent)
            await self._store(state)
            return gone

    async def change_settings(
        self, subject: Subject, change: Callable[[SubjectSettings], SubjectSettings]
    ) -> SubjectSettings:
        """Set something for a subject, or with an empty name for a context; durable when answered.

        Answers what was set before.
        """
        async with self._changes_lock:
            before = self._table.own_settings(subject)
            if before == SubjectSettings() and subject not in self._table.subjects():
                self._check_subject_count()
            after = change(before)
            if after != before:
                await self._store(self._table.decide_settings(subject, after))
            return before

    async def set_mode(self, subject: Subject, mode: Mode, *, force: bool = False) -> None:
        """What may be done with a subject or context. Raises NotPermitted: only what is empty can be imported into."""
        if mode == "READONLY_OVERRIDE" and subject != Subject(DEFAULT_CONTEXT, ""):
            raise InvalidSetting("READONLY_OVERRIDE is a mode of all subjects together")

        def change(settings: SubjectSettings) -> SubjectSettings:
            if mode == "IMPORT" and settings.mode != "IMPORT" and not force and self._is_filled(subject):
                raise NotPermitted(f"{str(subject)!r} has schemas: force=true sets the mode IMPORT all the same")
            return msgspec.structs.replace(settings, mode=mode)

        await self.change_settings(subject, change)

    # -----------------------------------------------------------------------------------------------------------------

    def _setting(self, subject: Subject, of: Callable[[SubjectSettings], str | bool | None]) -> str | bool | None:
        for place in (subject, Subject(subject.context, ""), Subject(DEFAULT_CONTEXT, "")):
            value = of(self._table.own_settings(place))
            if value is not None:
                return value
        return None

    def _is_filled(self, subject: Subject) -> bool:
        if subject.name:
            return self._table.has_versions(subject)
        return any(one.context == subject.context and self._table.has_versions(one) for one in self._table.subjects())

    def _check_mode(self, subject: Subject, *, is_import: bool) -> None:
        mode = self._check_writable(subject)
        if is_import and mode != "IMPORT":
            raise NotPermitted(f"subject {str(subject)!r} is not in the mode IMPORT: an id or version cannot be given")

    def _check_writable(self, subject: Subject) -> Mode:
        mode = self.mode_of(subject)
        if mode.startswith("READONLY"):
            raise NotPermitted(f"subject {str(subject)!r} is in read-only mode")
        return mode

    def _check_room(self, subject: Subject) -> None:
        if len(self._table.all_versions(subject, deleted=True)) >= VERSIONS_MAX:
            raise NotPermitted(f"subject {str(subject)!r} has {VERSIONS_MAX} versions already")
        if subject not in self._table.subjects():
            self._check_subject_count()

    def _check_subject_count(self) -> None:
        if len(self._table.subjects()) >= SUBJECTS_MAX:
            raise NotPermitted(f"there are {SUBJECTS_MAX} subjects already")

    def _gather(self, context: str, schema: Schema, texts: dict[str, str], under_way: set[str]) -> None:
        if len(schema.references) > REFERENCES_MAX:
            raise InvalidSchema(f"a schema has at most {REFERENCES_MAX} references")
        for reference in schema.references:
            if reference.name in texts:
                continue
            if reference.name in under_way or len(texts) + len(under_way) > REFERENCES_MAX:
                raise InvalidSchema(f"the references of {reference.name!r} lead back to it, or are too many")
            subject, version = self._table.target(context, reference)
            try:
                used = self._table.get(subject, version, deleted=True)
            except SchemaError as error:
                raise InvalidSchema(f"the reference {reference.name!r} cannot be resolved: {error}") from None
            under_way.add(reference.name)
            self._gather(subject.context, used.schema, texts, under_way)
            under_way.discard(reference.name)
            texts[reference.name] = used.schema.text

    def source_of(self, context: str, number: int) -> Source:
        """The texts of a schema and of all that it uses. Raises UnknownSchema, InvalidSchema."""
        return self._source(context, self.by_id(context, number).schema)

    def _source(self, context: str, schema: Schema) -> Source:
        return Source(schema.format, schema.text, tuple(self.texts_of(context, schema).items()))

    async def _canonical(self, subject: Subject, schema: Schema, *, normalize: bool) -> Schema:
        """The same schema with its canonical text. Raises InvalidSchema."""
        normalize = normalize or bool(self._setting(subject, lambda settings: settings.normalize))
        source = self._source(subject.context, schema)
        parsed = await self._heavy_work.run(lambda: self._parsed.get(source))
        return msgspec.structs.replace(schema, text=parsed.normal if normalize else parsed.canonical)

    async def _compare(
        self, subject: Subject, schema: Schema, against: Sequence[Registered], level: Level
    ) -> list[Incompatibility]:
        if level is Level.NONE or not against:
            return []
        group = self._setting(subject, lambda settings: settings.group)
        if isinstance(group, str):
            wanted = _property(schema, group)
            against = [one for one in against if _property(one.schema, group) == wanted]
        older = against if level.is_transitive else against[-1:]
        mine = self._source(subject.context, schema)
        sources = [(one.version, self._source(subject.context, one.schema)) for one in older]
        if sum(source.size for _, source in sources) > SOURCES_BYTES_MAX:
            raise NotPermitted(f"the versions of subject {str(subject)!r} are too large to compare with all of them")

        def compare() -> list[Incompatibility]:
            try:
                parsed = [Older(version, source.format, self._parsed.get(source)) for version, source in sources]
                return check_level(mine.format, self._parsed.get(mine), parsed, level)
            except RecursionError:
                raise InvalidSchema("the schema is nested too deep") from None

        return await self._heavy_work.run(compare)

    async def _store(self, state: Iterable[Mutation]) -> None:
        mutations = list(state)
        await self._engine.alter((), mutations)
        for mutation in mutations:
            self._table.replay(mutation.key, mutation.value)


def _property(schema: Schema, name: str) -> object:
    return ((schema.metadata or {}).get("properties") or {}).get(name)
