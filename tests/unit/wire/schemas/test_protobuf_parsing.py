"""The reader of .proto texts against protoc, and its text against itself."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.schemas.protobuf.schema import ProtobufSchema

protoc = pytest.importorskip("grpc_tools.protoc")

FILES = {
    "proto3": """syntax = "proto3"; package a.b; import "google/protobuf/timestamp.proto";
        import public "google/protobuf/any.proto";
        option java_package = "x.y"; option optimize_for = SPEED;
        // a comment { that says nothing
        message M { reserved 100 to 200, 300, 1000 to max; reserved "old", 'older';
          int32 plain = 1; optional string maybe = 2; repeated sint64 many = 3 [packed = false, deprecated = true];
          map<string, Inner.Deep> by_name = 4; oneof one_of { Inner inner = 5; bytes raw = 6; } Kind kind = 7 [json_name = "K"];
          google.protobuf.Timestamp at = 0x8; optional Kind last = 011; .a.b.M self = 10;
          message Inner { message Deep { fixed32 f = 1; M up = 2; } enum Kind { NONE = 0; } Kind mine = 1; } }
        enum Kind { option allow_alias = true; ZERO = 0; NULL = 0; LOW = -5; }
        service S { rpc Call (M) returns (stream M) { option deprecated = true; } rpc Other (M) returns (M); }""",
    "proto2": """syntax = "proto2"; message M { required int32 a = 1 [default = -5];
        optional string s = 2 [default = "it's \\"q\\" \\n\\x41"];
        optional double d = 3 [default = inf]; optional bytes b = 4 [default = "\\001a\\377"];
        optional bool t = 5 [default = true];
        optional E e = 6 [default = TWO]; repeated group Result = 7 { required string url = 1; }
        extensions 100 to 199, 500 to max;
        enum E { ONE = 1; TWO = 2; reserved 5 to 9, 20; reserved "THREE"; } oneof choice { int32 x = 8; string y = 9; } }
        extend M { optional int32 more = 100; repeated M others = 101; }""",
    "no package": 'syntax = "proto3"; message package { string optional = 1; int32 oneof = 2; package map = 3; }',
    "empty": 'syntax = "proto3";',
}


def by_protoc(text: str, directory: Path) -> Any:
    (directory / "default.proto").write_text(text)
    include = Path(protoc.__file__).parent / "_proto"
    out = directory / "out"
    assert (
        protoc.main(["protoc", f"-I{directory}", f"-I{include}", f"--descriptor_set_out={out}", "default.proto"]) == 0
    )
    (file,) = pb.FileDescriptorSet.FromString(out.read_bytes()).file
    return file


def bare(message: Any) -> Any:
    """Without what is derived from the rest."""
    message.ClearField("service") if hasattr(message, "service") else None
    for field in (*getattr(message, "field", ()), *getattr(message, "extension", ())):
        if field.json_name != "K":
            field.ClearField("json_name")
    for inner in (*getattr(message, "message_type", ()), *getattr(message, "nested_type", ())):
        bare(inner)
    return message


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_protoc_reads_the_same(text: str, tmp_path: Path) -> None:
    ours = ProtobufSchema(text, {})
    theirs = bare(by_protoc(text, tmp_path))
    assert bare(ours.file) == theirs
    again = ProtobufSchema(ours.canonical, {})
    assert bare(again.file) == theirs
    assert again.canonical == ours.canonical
    assert bare(by_protoc(ours.canonical, tmp_path)).message_type == theirs.message_type
    assert ProtobufSchema(ours.text_in("serialized"), {}).canonical == ours.canonical


def test_a_short_name_that_another_type_has_is_written_whole() -> None:
    text = """syntax = "proto3"; package p; message A { message B { string s = 1; } .p.B outer = 1; B inner = 2; }
        message B { int32 i = 1; }"""
    parsed = ProtobufSchema(text, {})
    fields = {field.name: field.type_name for field in parsed.file.message_type[0].field}
    assert fields == {"outer": ".p.B", "inner": ".p.A.B"}
    assert ProtobufSchema(parsed.canonical, {}).file == parsed.file


NAMES = st.sampled_from(["A", "B", "C"])
LABELS = st.sampled_from(["", "repeated ", "optional "])
SCALARS = st.sampled_from(["int32", "string", "bytes", "double", "sfixed64", "bool"])


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> str:
    names = draw(st.lists(NAMES, max_size=3, unique=True)) if depth else []
    inner = [f"message {name} {{ {draw(messages(depth - 1))} }}" for name in names]
    fields = [
        f"{draw(LABELS)}{draw(SCALARS | st.sampled_from(names or ['int64']))} f{n} = {n};"
        for n in draw(st.lists(st.integers(1, 30), max_size=4, unique=True))
    ]
    return " ".join([*inner, *fields])


@given(messages(), st.sampled_from(["", "package x;", "package A.B;"]))
def test_what_is_printed_means_the_same(body: str, package: str) -> None:
    parsed = ProtobufSchema(f'syntax = "proto3"; {package} message A {{ {body} }}', {})
    for text in (parsed.canonical, parsed.text_in("serialized")):
        assert ProtobufSchema(text, {}).file == parsed.file
    assert not ProtobufSchema(parsed.normal, {}).differences(parsed)
    assert ProtobufSchema(parsed.normal, {}).normal == parsed.normal
