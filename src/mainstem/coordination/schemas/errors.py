"""What cannot be done with schemas, named by the fact.

PeerError
|-- InvalidSchema (wire/schemas)
`-- SchemaError
    |-- UnknownSubject, UnknownVersion, UnknownSchema
    |-- SubjectDeleted, SubjectNotDeleted, VersionDeleted, VersionNotDeleted
    |-- NothingSet
    |-- InvalidSubject, InvalidVersion, InvalidSetting
    |-- NotPermitted, SchemaReferenced, IdDiffers
    `-- IncompatibleSchema
"""

from collections.abc import Sequence

from mainstem.model.errors import PeerError
from mainstem.wire.schemas.levels import Incompatibility


class SchemaError(PeerError):
    """Something about a schema cannot be."""


class UnknownSubject(SchemaError):
    """No such subject."""


class UnknownVersion(SchemaError):
    """The subject has no such version."""


class UnknownSchema(SchemaError):
    """No schema has this id, or the subject has no such schema."""


class SubjectDeleted(SchemaError):
    """All versions of the subject were deleted before."""


class SubjectNotDeleted(SchemaError):
    """A subject is deleted for good only after it was deleted."""


class VersionDeleted(SchemaError):
    """The version was deleted before."""


class VersionNotDeleted(SchemaError):
    """A version is deleted for good only after it was deleted."""


class NothingSet(SchemaError):
    """Nothing is set for this subject itself."""


class InvalidSubject(SchemaError):
    """A subject cannot have this name."""


class InvalidVersion(SchemaError):
    """Not a version: a positive number, or `latest`."""


class InvalidSetting(SchemaError):
    """Subjects cannot be set so."""


class NotPermitted(SchemaError):
    """The mode of the subject forbids it."""


class SchemaReferenced(SchemaError):
    """Another schema uses the version."""


class IdDiffers(SchemaError):
    """The id is that of another schema."""


class IncompatibleSchema(SchemaError):
    """Versions of the subject stand against it."""

    def __init__(self, subject: str, found: Sequence[Incompatibility]) -> None:
        super().__init__(f"the schema is incompatible with version {found[0].version} of subject {subject!r}")
        self.found = found
