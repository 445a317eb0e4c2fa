"""Writes kafka_messages.json: every message in every version, encoded by an independent implementation.

Run in an environment of its own, with the packages that the README beside names. Not run by the tests. Values are drawn
from a fixed seed. A struct is written as the list of its fields in the order of the schema, so that the vectors do not
depend on anybody's names.
"""

import dataclasses
import datetime
import importlib
import io
import json
import pkgutil
import random
import sys
import types
import typing
import uuid
from importlib.metadata import version
from pathlib import Path

import kio.schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from mainstem.wire.kafka import APIS

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TEXTS = ("", "a", "orders", "größe", "x" * 130)
ELEMENTS = (0, 1, 2)

draw = random.Random(20)


def scalar(kind: str) -> tuple[object, object]:
    """The value for their encoder, and the same for the vector."""
    match kind:
        case "bool":
            value = draw.random() < 0.5
            return value, value
        case "int8" | "int16" | "int32" | "int64":
            value = draw.choice((0, 1, -1, draw.getrandbits(BITS[kind]), -draw.getrandbits(BITS[kind])))
            return value, value
        case "uint16":
            value = draw.getrandbits(16)
            return value, value
        case "float64":
            value = draw.choice((0.0, 1.5, -2.25e100))
            return value, value
        case "string":
            value = draw.choice(TEXTS)
            return value, value
        case "bytes" | "records":
            value = draw.randbytes(draw.choice((0, 1, 40)))
            return value, f"hex:{value.hex()}"
        case "uuid":
            value = uuid.UUID(int=draw.getrandbits(128) | 1)
            return value, f"uuid:{value}"
        case "error_code":
            code = draw.choice(list(ErrorCode))
            return code, int(code)
        case "timedelta_i32" | "timedelta_i64":
            value = draw.getrandbits(31)
            return value * MILLISECOND, value
        case "datetime_i64":
            value = draw.getrandbits(41)
            return EPOCH + value * MILLISECOND, value
    raise AssertionError(kind)


def without_none(hint: object) -> tuple[object, bool]:
    if isinstance(hint, types.UnionType):
        inner = [member for member in typing.get_args(hint) if member is not type(None)]
        return inner[0], len(inner) < len(typing.get_args(hint))
    return hint, False


def entity(kind: type) -> tuple[object, list[object]]:
    hints = typing.get_type_hints(kind)
    theirs: dict[str, object] = {}
    ours: list[object] = []
    for field in dataclasses.fields(kind):
        hint, is_nullable = without_none(hints[field.name])
        primitive = field.metadata.get("kafka_type")
        if typing.get_origin(hint) is not tuple and primitive in ("uuid", "datetime_i64"):
            is_nullable = False  # there, None stands for zero or -1
        if is_nullable and draw.random() < 0.25:
            theirs[field.name] = None
            ours.append(None)
            continue
        if typing.get_origin(hint) is tuple:
            element, _ = without_none(typing.get_args(hint)[0])
            pairs = [scalar(primitive) if primitive else entity(element) for _ in range(draw.choice(ELEMENTS))]
            theirs[field.name] = tuple(pair[0] for pair in pairs)
            ours.append([pair[1] for pair in pairs])
            continue
        theirs[field.name], value = scalar(primitive) if primitive else entity(hint)
        ours.append(value)
    return kind(**theirs), ours


def messages() -> typing.Iterator[tuple[str, int, type]]:
    wanted = {f"{api.name}{side}" for api in APIS.values() for side in ("Request", "Response")}
    wanted |= {"ConsumerProtocolSubscription", "ConsumerProtocolAssignment"}
    for package in pkgutil.walk_packages(kio.schema.__path__, "kio.schema."):
        if package.ispkg:
            continue
        module = importlib.import_module(package.name)
        for name, kind in vars(module).items():
            if name in wanted and getattr(kind, "__module__", "") == module.__name__:
                yield name, int(kind.__version__), kind


def main(path: str) -> None:
    lines = []
    for name, number, kind in sorted(messages(), key=lambda message: message[:2]):
        for _ in range(2):
            value, fields = entity(kind)
            buffer = io.BytesIO()
            entity_writer(kind)(buffer, value)
            lines.append(json.dumps([name, number, fields, buffer.getvalue().hex()], ensure_ascii=False))
    source = json.dumps(f"kio {version('kio')}")
    Path(path).write_text(f'{{"source": {source},\n"messages": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
