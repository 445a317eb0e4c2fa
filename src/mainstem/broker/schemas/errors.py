"""What cannot be done with schemas, for adapters."""

from mainstem.coordination.schemas.errors import (
    IdDiffers,
    IncompatibleSchema,
    InvalidSetting,
    InvalidSubject,
    InvalidVersion,
    NothingSet,
    NotPermitted,
    SchemaError,
    SchemaReferenced,
    SubjectDeleted,
    SubjectNotDeleted,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
    VersionDeleted,
    VersionNotDeleted,
)
from mainstem.wire.schemas.schema import InvalidSchema

__all__ = [
    "IdDiffers",
    "IncompatibleSchema",
    "InvalidSchema",
    "InvalidSetting",
    "InvalidSubject",
    "InvalidVersion",
    "NotPermitted",
    "NothingSet",
    "SchemaError",
    "SchemaReferenced",
    "SubjectDeleted",
    "SubjectNotDeleted",
    "UnknownSchema",
    "UnknownSubject",
    "UnknownVersion",
    "VersionDeleted",
    "VersionNotDeleted",
]
