"""What "Updating A Message Type" and Confluent's rules say of a Protobuf schema that follows another."""

from tests.unit.wire.schemas.avro_cases import Case

SCALAR, KIND, NAMED = "FIELD_SCALAR_KIND_CHANGED", "FIELD_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"
REMOVED, LABEL = "MESSAGE_REMOVED", "FIELD_NUMERIC_LABEL_CHANGED"
REQUIRED_ADDED, REQUIRED_REMOVED = "REQUIRED_FIELD_ADDED", "REQUIRED_FIELD_REMOVED"
MOVED, SEVERAL, LEFT = "FIELD_MOVED_TO_EXISTING_ONEOF", "MULTIPLE_FIELDS_MOVED_TO_ONEOF", "ONEOF_FIELD_REMOVED"

GROUPS = [
    ("int32", "int64", "uint32", "uint64", "bool", "E"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
]
"""Types within a group have the same bytes."""


def m(fields: str = "", more: str = "", *, head: str = "") -> str:
    return f'syntax = "proto3"; {head} message M {{ {fields} }} {more}'


def m2(fields: str) -> str:
    return f'syntax = "proto2"; message M {{ {fields} }}'


E = "enum E { Z = 0; }"
SCALARS = [
    Case(m(f"{older} a = 1;", E), m(f"{newer} a = 1;", E))
    for group in GROUPS
    for older in group
    for newer in group
    if older != newer
] + [
    Case(m(f"{one[0]} a = 1;", E), m(f"{other[-1]} a = 1;", E), SCALAR, SCALAR)
    for one in GROUPS
    for other in GROUPS
    if one < other
]
FIELDS = [
    Case(m("int32 a = 1;"), m("int32 a = 1; int32 b = 2;")),
    Case(m("int32 a = 1;"), m("int32 b = 1;")),
    Case(m("int32 a = 1;"), m("int32 a = 2;")),
    Case(m("int32 a = 1;"), m("reserved 1;")),
    Case(m("int32 a = 1;"), m("optional int32 a = 1;")),
    Case(m("int32 a = 1;"), m("repeated int32 a = 1;"), LABEL, LABEL),
    Case(m("string a = 1;"), m("repeated string a = 1;")),
    Case(m("N a = 1;", "message N {}"), m("repeated N a = 1;", "message N {}")),
    Case(m("int32 a = 1;"), m("N a = 1;", "message N {}"), KIND, f"{REMOVED} {KIND}"),
    Case(m("int32 a = 1;"), m("map<string, int32> a = 1;"), KIND, KIND),
    Case(m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;")),
    Case(m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), SCALAR, SCALAR),
    Case(m("map<string, int32> a = 1;"), m("map<int32, int32> a = 1;"), SCALAR, SCALAR),
    Case(m("N a = 1;", "message N {} message O {}"), m("O a = 1;", "message N {} message O {}"), NAMED, NAMED),
    Case(m("int32 a = 1 [deprecated = true];"), m("int32 a = 1;")),
    Case(m("google.protobuf.Timestamp a = 1;", head='import "google/protobuf/timestamp.proto";'),
         m("google.protobuf.Duration a = 1;", head='import "google/protobuf/duration.proto";'), NAMED, NAMED),
]  # fmt: skip
LABELS = [
    Case(
        m2("optional int32 a = 1;"), m2("optional int32 a = 1; required int32 b = 2;"), REQUIRED_ADDED, REQUIRED_REMOVED
    ),
    Case(m2("required int32 a = 1;"), m2("optional int32 a = 1;")),
    Case(m2("optional int32 a = 1;"), m2("optional int32 a = 1; optional int32 b = 2 [default = 4];")),
]
ONEOFS = [
    Case(m("int32 a = 1;"), m("oneof o { int32 a = 1; }")),
    Case(m("int32 a = 1; int32 b = 2;"), m("oneof o { int32 a = 1; int32 b = 2; }"), SEVERAL),
    Case(m("int32 a = 1; oneof o { int32 b = 2; }"), m("oneof o { int32 a = 1; int32 b = 2; }"), MOVED),
    Case(m("oneof o { int32 a = 1; }"), m("oneof o { int32 a = 1; int32 b = 2; }"), "", LEFT),
    Case(m("oneof o { int32 a = 1; }"), m("oneof p { int32 a = 1; }")),
    Case(m("oneof o { int32 a = 1; }"), m("oneof o { string a = 1; }"), SCALAR, SCALAR),
    Case(m("oneof o { int32 a = 1; }"), m("oneof p { string a = 1; }"), SCALAR, SCALAR),
    Case(m("oneof o { int32 a = 1; int32 b = 2; }"), m("int32 a = 1; int32 b = 2;"), "", SEVERAL),
]
TYPES = [
    Case(m(), m(more="message N {}"), "", REMOVED),
    Case(m(more="message N {}"), 'syntax = "proto3"; message N {} message M {}'),
    Case(m("message N {}"), m(), REMOVED),
    Case(m("message N { int32 a = 1; } N n = 1;"), m("message N { string a = 1; } N n = 1;"), SCALAR, SCALAR),
    Case(m(more="enum E { A = 0; }"), m(more="enum E { A = 0; B = 1; }")),
    Case(m(more="enum E { A = 0; }"), m()),
    Case(m(more="enum E { A = 0; }"), m(more="enum E { B = 0; }")),
    Case(m("int32 a = 1;", head="package x;"), m("int32 a = 1;", head="package y;")),
    Case(m("N n = 1;", "message N { int32 a = 1; }", head="package x;"),
         m("N n = 1;", "message N { string a = 1; }", head="package y;"), SCALAR, SCALAR),
    Case(m("M m = 1;"), m("M m = 1; int32 a = 2;")),
]  # fmt: skip
PROTOBUF_CASES = [*SCALARS, *FIELDS, *LABELS, *ONEOFS, *TYPES]
