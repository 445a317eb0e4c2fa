"""Files that every schema may import without a reference, as Confluent's registry has them."""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)

from mainstem.wire.schemas.protobuf.parsing import parse_proto

_COMPILED = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2,
        timestamp_pb2, type_pb2, wrappers_pb2,
    )
}  # fmt: skip
_HEAD = 'syntax = "proto3"; package google.type; '
_TEXTS = {
    "confluent/meta.proto": """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }""",
    "confluent/types/decimal.proto": """syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    "google/type/date.proto": _HEAD + "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto": _HEAD
    + "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    "google/type/money.proto": _HEAD + "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "google/type/latlng.proto": _HEAD + "message LatLng { double latitude = 1; double longitude = 2; }",
    "google/type/decimal.proto": _HEAD + "message Decimal { string value = 1; }",
    "google/type/fraction.proto": _HEAD + "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "google/type/quaternion.proto": _HEAD
    + "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "google/type/color.proto": _HEAD
    + """import "google/protobuf/wrappers.proto";
        message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }""",
    "google/type/interval.proto": _HEAD
    + """import "google/protobuf/timestamp.proto";
        message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }""",
    "google/type/datetime.proto": _HEAD
    + """import "google/protobuf/duration.proto";
        message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;
          int32 seconds = 6; int32 nanos = 7;
          oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
        message TimeZone { string id = 1; string version = 2; }""",
    "google/type/dayofweek.proto": _HEAD
    + """enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5;
        SATURDAY = 6; SUNDAY = 7; }""",
    "google/type/month.proto": _HEAD
    + """enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7;
        AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }""",
}


@functools.cache
def well_known_file(name: str) -> Any:
    """Its descriptor; None where it is not one of them."""
    if name in _COMPILED:
        return descriptor_pb2.FileDescriptorProto.FromString(_COMPILED[name].serialized_pb)
    return parse_proto(_TEXTS[name], name) if name in _TEXTS else None
