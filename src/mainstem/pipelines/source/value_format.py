"""From options to a format."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.types import DataType, StructType

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.value_formats.contract import RawFormat, StringFormat, ValueFormat


def chosen_format(options: SourceOptions, given: StructType | None) -> ValueFormat:
    """The format that the options name; JSON takes its type from the schema of the read."""
    match options.format:
        case "string":
            return StringFormat()
        case "json":
            from mainstem.pipelines.value_formats.json_format import JsonFormat

            return JsonFormat(_json_type(given))
        case "avro":
            from mainstem.pipelines.value_formats.avro_format import AvroFormat

            return AvroFormat(options.text("value.schema") or "")
        case "protobuf":
            from mainstem.pipelines.value_formats.protobuf_format import ProtobufFormat

            return ProtobufFormat(_descriptors(options.text("value.schema") or ""), options.text("value.message") or "")
        case "registry":
            from mainstem.pipelines.value_formats.registry_format import registry_format

            wanted = given["value"].dataType if given is not None and "value" in given.fieldNames() else None
            return registry_format(options.registry_address(), options.subject(), options.text("value.message"), wanted)
        case _:
            return RawFormat()


def _json_type(given: StructType | None) -> DataType:
    if given is None or "value" not in given.fieldNames():
        return StructType([])
    return given["value"].dataType


def _descriptors(path: str) -> bytes:
    # read where the query is planned; executors get the content
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidOption(
            f"Option `value.schema` names {path!r}, which cannot be read ({error.strerror}): give the file that "
            "`protoc --include_imports --descriptor_set_out=FILE` writes."
        ) from None
