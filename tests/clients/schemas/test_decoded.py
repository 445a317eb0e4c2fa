"""Values as people see them: over HTTP, and by `mainstem consume`."""

import io
import json
import subprocess
import sys
from typing import Any

import fastavro
import pytest

from tests.clients.schemas.serving import RegistryBroker
from tests.support.clients.confluent import create, send
from tests.support.serving.program import get

pytestmark = pytest.mark.conformance


def framed(broker: RegistryBroker, subject: str, text: str, content: bytes, kind: str = "AVRO") -> bytes:
    found = broker.ask("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind}).content
    return b"\0" + int(found["id"]).to_bytes(4, "big") + content


def avro(text: str, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), datum)
    return out.getvalue()


RECORD = """{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
PROTO = 'syntax = "proto3"; message M { string a = 1; message N { int32 n = 1; } }'
NOTHINGS = '{"type": "array", "items": "null"}'


def test_values_are_decoded_by_the_schemas_that_they_name(broker: RegistryBroker) -> None:
    create(broker, "shown")
    known = framed(broker, "shown-1", RECORD, avro(RECORD, {"a": "x", "at": 0}))
    bomb = framed(broker, "shown-2", NOTHINGS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x0f\x00")
    values = [
        known,
        framed(broker, "shown-3", '{"type": "object"}', b'{"b": [1]}', "JSON"),
        framed(broker, "shown-4", PROTO, b"\x00\x0a\x01y", "PROTOBUF"),
        framed(broker, "shown-4", PROTO, b"\x04\x00\x00\x08\x07", "PROTOBUF"),
        known[:-1], known + b"more", bomb, b"\0\x7f\0\0\0", b"plain", b"",
    ]  # fmt: skip
    send(broker, "shown", values)
    status, text = get(broker.http, "/v1/topics/shown/records?decode=true")
    assert status == 200
    records = json.loads(text)["records"]
    assert [one.get("decoded") for one in records] == [
        {"a": "x", "at": "1970-01-01T00:00:00Z"}, {"b": [1]}, {"a": "y"}, {"n": 7}, *[None] * 6,
    ]  # fmt: skip
    assert records[0]["schema_id"] == int.from_bytes(known[1:5], "big")
    assert "base64" in records[4] or "text" in records[4]
    plain = json.loads(get(broker.http, "/v1/topics/shown/records")[1])["records"]
    assert not any("decoded" in one for one in plain)
    command = [sys.executable, "-m", "mainstem.cli", "consume", "shown", "--decode", "-n", "2", "-o", "name"]
    shown = subprocess.run([*command, "--address", broker.http], capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [
        {"a": "x", "at": "1970-01-01T00:00:00Z"},
        {"b": [1]},
    ]
