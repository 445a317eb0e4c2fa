"""Subjects and their versions, schemas and their ids: all that is stored, and what may become of it.

Within a context one schema has one id, in however many subjects it is. A deleted version keeps its number and its id until it
is deleted for good; an id never comes twice.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from mainstem.coordination.schemas import entries
from mainstem.coordination.schemas.entries import (
    DEFAULT_CONTEXT,
    NO_SETTINGS,
    SCOPE,
    Mode,
    SchemaEntry,
    Subject,
    SubjectSettings,
    VersionEntry,
)
from mainstem.coordination.schemas.errors import (
    IdDiffers,
    InvalidVersion,
    NotPermitted,
    SchemaReferenced,
    SubjectDeleted,
    SubjectNotDeleted,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
    VersionDeleted,
    VersionNotDeleted,
)
from mainstem.storage.contract import Mutation
from mainstem.wire.schemas.schema import Reference, Schema

ID_MAX = 2**31 - 1
"""A record has four bytes for it."""
LATEST = -1


class Registered(NamedTuple):
    """One version of a subject, with its schema."""

    subject: Subject
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False
    registered_ms: int = 0
    note: bytes = b""


class Registration(NamedTuple):
    """What a registration comes to."""

    mutations: list[Mutation]
    id: int
    version: int


def identify(schema: Schema) -> bytes:
    """A digest of a schema whose text is canonical."""
    return hashlib.sha256(msgspec.msgpack.encode(schema, order="sorted")).digest()[:16]


def guid_of(identity: bytes) -> str:
    """A name for a schema that is the same in every context and every broker."""
    return str(uuid.UUID(bytes=identity))


class SchemaTable:
    """All that is stored."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._schemas: dict[tuple[str, int], SchemaEntry] = {}
        self._ids: dict[tuple[str, bytes], int] = {}
        self._versions: dict[Subject, dict[int, VersionEntry]] = {}
        self._uses: dict[tuple[str, int], dict[tuple[Subject, int], None]] = {}
        """Versions that have an id."""
        self._referring: dict[tuple[Subject, int], set[int]] = {}
        """Ids of schemas that refer to a version."""
        self._settings: dict[Subject, SubjectSettings] = {}

    # Questions

    def contexts(self) -> list[str]:
        """Those in which anything was registered, and the one that is always there."""
        return sorted({DEFAULT_CONTEXT, *(subject.context for subject in self._versions)})

    def subjects(self) -> Collection[Subject]:
        """All that have a version, deleted ones too."""
        return self._versions.keys()

    def has_versions(self, subject: Subject, *, deleted: bool = False) -> bool:
        """Whether there is one that is not deleted, or any."""
        return any(deleted or not entry.is_deleted for entry in self._versions.get(subject, {}).values())

    def versions(self, subject: Subject, *, deleted: bool = False) -> list[int]:
        """By rising number. Raises UnknownSubject."""
        found = [
            number
            for number, entry in sorted(self._versions.get(subject, {}).items())
            if deleted or not entry.is_deleted
        ]
        if not found:
            raise UnknownSubject(f"there is no subject {str(subject)!r}")
        return found

    def get(self, subject: Subject, version: int = LATEST, *, deleted: bool = False) -> Registered:
        """A version. Raises UnknownSubject, UnknownVersion."""
        known = self.versions(subject, deleted=deleted)
        number = known[-1] if version == LATEST else version
        if number not in known:
            raise UnknownVersion(f"subject {str(subject)!r} has no version {version}")
        return self._registered(subject, number)

    def all_versions(self, subject: Subject, *, deleted: bool = False) -> list[Registered]:
        """By rising number; none of an unknown subject."""
        return [
            self._registered(subject, number)
            for number, entry in sorted(self._versions.get(subject, {}).items())
            if deleted or not entry.is_deleted
        ]

    def by_id(self, context: str, number: int) -> SchemaEntry:
        """A schema. Raises UnknownSchema."""
        found = self._schemas.get((context, number))
        if found is None:
            raise UnknownSchema(f"there is no schema with the id {number}")
        return found

    def by_guid(self, guid: str) -> list[tuple[str, int]]:
        """Contexts and ids under which a schema is known. Raises UnknownSchema."""
        try:
            identity = uuid.UUID(guid).bytes
        except ValueError:
            identity = b""
        found = [(context, number) for (context, known), number in self._ids.items() if known == identity]
        if not found:
            raise UnknownSchema(f"there is no schema with the guid {guid!r}")
        return found

    def uses(self, context: str, number: int, *, deleted: bool = False) -> list[tuple[Subject, int]]:
        """Subjects and versions that have an id."""
        return sorted(
            (subject, version)
            for subject, version in self._uses.get((context, number), ())
            if deleted or not self._versions[subject][version].is_deleted
        )

    def has_id(self, subject: Subject, number: int) -> bool:
        """Whether a version of the subject that is not deleted has this id."""
        return any(entry.id == number and not entry.is_deleted for entry in self._versions.get(subject, {}).values())

    def last_id(self, context: str) -> int:
        """The highest one that was given."""
        return self._numbers.get(context, 0)

    def find(self, subject: Subject, identity: bytes, *, deleted: bool = False) -> Registered | None:
        """The newest version of the subject that has this schema."""
        number = self._ids.get((subject.context, identity))
        matches = [
            version
            for one, version in self._uses.get((subject.context, number), ())
            if one == subject and (deleted or not self._versions[subject][version].is_deleted)
        ] if number is not None else []  # fmt: skip
        return self._registered(subject, max(matches)) if matches else None

    def referring(self, subject: Subject, version: int, *, deleted: bool = False) -> list[int]:
        """Ids of the schemas in use that refer to a version."""
        return sorted(
            number
            for number in self._referring.get((subject, version), ())
            if self.uses(subject.context, number, deleted=deleted)
        )

    def own_settings(self, subject: Subject) -> SubjectSettings:
        """What is set for the subject or context itself."""
        return self._settings.get(subject, NO_SETTINGS)

    def _registered(self, subject: Subject, version: int) -> Registered:
        entry = self._versions[subject][version]
        schema = self._schemas[subject.context, entry.id].schema
        return Registered(subject, version, entry.id, schema, entry.is_deleted, entry.registered_ms, entry.note)

    # Decisions

    def decide_register(
        self,
        subject: Subject,
        schema: Schema,
        now_ms: int,
        *,
        version: int | None = None,
        number: int | None = None,
        note: bytes = b"",
    ) -> Registration:
        """A new version of a subject. `version` and `number` (the id) are given where schemas are imported."""
        identity = identify(schema)
        known = self._ids.get((subject.context, identity))
        given = self._versions.get(subject, {})
        if version is not None and version in given:
            raise NotPermitted(f"subject {str(subject)!r} has a version {version} already")
        version = max(given, default=0) + 1 if version is None else version
        mutations = []
        if number is not None:
            found = self._schemas.get((subject.context, number))
            if (found is not None and found.identity != identity) or known not in (None, number):
                raise IdDiffers(f"the id {number} is that of another schema")
        if known is None:
            known = self.last_id(subject.context) + 1 if number is None else number
            if not 0 < known <= ID_MAX:
                raise NotPermitted(f"the id {known} cannot be: they go up to {ID_MAX}")
            last = max(known, self.last_id(subject.context))
            mutations.append(Mutation(SCOPE, entries.NUMBER + subject.context.encode(), entries.encode(last)))
            entry = SchemaEntry(schema.format, schema.text, schema.references, schema.metadata, schema.rules, identity)
            mutations.append(Mutation(SCOPE, entries.schema_key(subject.context, known), entries.encode(entry)))
        mutations.append(self._put(subject, version, VersionEntry(known, False, now_ms, note)))
        return Registration(mutations, known, version)

    def decide_delete_version(self, subject: Subject, version: int, *, permanent: bool) -> list[Mutation]:
        """It is not there any more, or for good."""
        numbers = self._versions.get(subject)
        if not numbers:
            raise UnknownSubject(f"there is no subject {str(subject)!r}")
        if version == LATEST:
            version = self.versions(subject, deleted=permanent)[-1]
        if version not in numbers:
            raise UnknownVersion(f"subject {str(subject)!r} has no version {version}")
        if permanent and not numbers[version].is_deleted:
            raise VersionNotDeleted(
                f"version {version} of subject {str(subject)!r} was not deleted before it is to be deleted for good"
            )
        if not permanent and numbers[version].is_deleted:
            raise VersionDeleted(f"version {version} of subject {str(subject)!r} was deleted before")
        return self._delete(subject, [version], permanent=permanent)

    def decide_delete_subject(self, subject: Subject, *, permanent: bool) -> tuple[list[Mutation], list[int]]:
        """All its versions go; answers which."""
        numbers = self._versions.get(subject)
        if not numbers:
            raise UnknownSubject(f"there is no subject {str(subject)!r}")
        is_deleted = all(entry.is_deleted for entry in numbers.values())
        if permanent and not is_deleted:
            raise SubjectNotDeleted(f"subject {str(subject)!r} was not deleted before it is to be deleted for good")
        if not permanent and is_deleted:
            raise SubjectDeleted(f"subject {str(subject)!r} was deleted before; permanent=true deletes it for good")
        gone = sorted(number for number, entry in numbers.items() if permanent or not entry.is_deleted)
        state = self._delete(subject, gone, permanent=permanent)
        if self._settings.get(subject) is not None:
            state.append(Mutation(SCOPE, entries.settings_key(subject), None))
        return state, gone

    def decide_settings(self, subject: Subject, settings: SubjectSettings) -> list[Mutation]:
        """From now on it is set so."""
        value = None if settings == NO_SETTINGS else entries.encode(settings)
        return [Mutation(SCOPE, entries.settings_key(subject), value)]

    def _delete(self, subject: Subject, versions: Sequence[int], *, permanent: bool) -> list[Mutation]:
        for version in versions:
            referring = self.referring(subject, version, deleted=permanent)
            if referring:
                raise SchemaReferenced(
                    f"version {version} of subject {str(subject)!r} is used by the schema with the id {referring[0]}"
                )
        if not permanent:
            numbers = self._versions[subject]
            return [
                self._put(subject, version, msgspec.structs.replace(numbers[version], is_deleted=True))
                for version in versions
            ]
        state = [Mutation(SCOPE, entries.version_key(subject, version), None) for version in versions]
        for number in {self._versions[subject][version].id for version in versions}:
            others = set(self._uses[subject.context, number]) - {(subject, version) for version in versions}
            if not others:
                state.append(Mutation(SCOPE, entries.schema_key(subject.context, number), None))
        return state

    def _put(self, subject: Subject, version: int, entry: VersionEntry) -> Mutation:
        return Mutation(SCOPE, entries.version_key(subject, version), entries.encode(entry))

    # Effects

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        kind = key[:1]
        if kind == entries.NUMBER:
            assert value is not None
            self._numbers[key[1:].decode()] = entries.decode_number(value)
        elif kind == entries.SCHEMA:
            self._replay_schema(*entries.read_schema_key(key), value)
        elif kind == entries.VERSION:
            self._replay_version(*entries.read_version_key(key), value)
        elif value is None:
            self._settings.pop(entries.read_settings_key(key), None)
        else:
            self._settings[entries.read_settings_key(key)] = entries.decode_settings(value)

    def _replay_schema(self, context: str, number: int, value: bytes | None) -> None:
        before = self._schemas.pop((context, number), None)
        if before is not None:
            self._ids.pop((context, before.identity), None)
            for reference in before.references:
                self._referring.get(self.target(context, reference), set()).discard(number)
        if value is not None:
            entry = self._schemas[context, number] = entries.decode_schema(value)
            self._ids[context, entry.identity] = number
            for reference in entry.references:
                self._referring.setdefault(self.target(context, reference), set()).add(number)

    def _replay_version(self, subject: Subject, version: int, value: bytes | None) -> None:
        numbers = self._versions.setdefault(subject, {})
        before = numbers.pop(version, None)
        if before is not None:
            uses = self._uses[subject.context, before.id]
            uses.pop((subject, version), None)
            if not uses:
                del self._uses[subject.context, before.id]
        if value is None:
            if not numbers:
                del self._versions[subject]
            return
        entry = numbers[version] = entries.decode_version(value)
        self._uses.setdefault((subject.context, entry.id), {})[subject, version] = None

    @staticmethod
    def target(context: str, reference: Reference) -> tuple[Subject, int]:
        """What a reference of a schema of this context points to."""
        return entries.parse_subject(reference.subject, context), reference.version


def parse_version(text: str) -> int:
    """From `latest` or a number. Raises InvalidVersion."""
    if text in ("latest", "-1"):
        return LATEST
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) <= ID_MAX:
        raise InvalidVersion(f"{text!r} is not a version: a number from 1 to {ID_MAX}, or latest")
    return int(text)


def effective_mode(table: SchemaTable, subject: Subject) -> Mode:
    """What holds for a subject: its own, its context's, that of all."""
    everywhere = table.own_settings(Subject(DEFAULT_CONTEXT, "")).mode
    if everywhere == "READONLY_OVERRIDE":
        return everywhere
    for place in (subject, Subject(subject.context, "")):
        mode = table.own_settings(place).mode
        if mode is not None:
            return mode
    return everywhere or "READWRITE"
