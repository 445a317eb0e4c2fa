"""Options: those that the language knows become fields of the descriptor's options, others are kept as they are written."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor

from mainstem.wire.schemas.protobuf.tokens import Words, whole
from mainstem.wire.schemas.schema import InvalidSchema

_OPEN, _CLOSE = "{[<", "}]>"
INTEGERS_MAX = 1 << 64


def read_option(words: Words, options: Any, field: Any = None) -> None:
    """`name = value`, into the options, or the field where it says something of the field itself."""
    name = _name(words)
    words.expect("=")
    plain = name[0][0] if len(name) == 1 and not name[0][1] else ""
    if field is not None and plain == "default":
        field.default_value = _default(words, field)
    elif field is not None and plain == "json_name":
        field.json_name = words.string()
    elif plain in options.DESCRIPTOR.fields_by_name and plain != "uninterpreted_option":
        _set_known(words, options, plain)
    elif plain:
        raise InvalidSchema(f"the option {plain!r} is not known")
    else:
        option = options.uninterpreted_option.add()
        for part, is_extension in name:
            option.name.add(name_part=part, is_extension=is_extension)
        _set_value(words, option)


def read_options(words: Words, options: Any, field: Any = None) -> None:
    """`[name = value, ...]`, if it comes."""
    if not words.has("["):
        return
    while True:
        read_option(words, options, field)
        if not words.has(","):
            break
    words.expect("]")


def skip_braces(words: Words) -> str:
    """Take what stands in braces, and answer it."""
    depth = 0
    taken: list[str] = []
    words.expect("{")
    while True:
        word = words.take()
        if word.kind == "sign" and word.text in _OPEN:
            depth += 1
        elif word.kind == "sign" and word.text in _CLOSE:
            if depth == 0:
                return " ".join(taken)
            depth -= 1
        taken.append(word.text)


def _name(words: Words) -> list[tuple[str, bool]]:
    parts = []
    while True:
        if words.has("("):
            parts.append((words.full_name(), True))
            words.expect(")")
        else:
            parts.append((words.name(), False))
        if not words.has("."):
            return parts


def _default(words: Words, field: Any) -> str:
    if words.next.kind == "text":
        if field.type == pb.FieldDescriptorProto.TYPE_BYTES:
            return "".join(
                chr(byte) if 32 <= byte < 127 and byte not in b"\\\"'" else f"\\{byte:03o}" for byte in words.octets()
            )
        return words.string()
    sign = "-" if words.has("-") else ""
    word = words.take()
    return sign + (str(whole(word.text)) if word.kind == "int" else word.text)


def _set_known(words: Words, options: Any, name: str) -> None:
    known = options.DESCRIPTOR.fields_by_name[name]
    value: Any
    if known.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        value = words.string()
    elif known.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        raise InvalidSchema(f"the option {name!r} is not read")
    else:
        word = words.take().text
        if known.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            value = {"true": True, "false": False}.get(word)
        else:
            found = known.enum_type.values_by_name.get(word) if known.enum_type else None
            value = found.number if found is not None else None
        if value is None:
            raise InvalidSchema(f"the option {name!r} cannot be {word!r}")
    if known.is_repeated:
        getattr(options, name).append(value)
    else:
        setattr(options, name, value)


def _set_value(words: Words, option: Any) -> None:
    if words.next.text == "{" and words.next.kind == "sign":
        option.aggregate_value = skip_braces(words)
        return
    if words.next.kind == "text":
        option.string_value = words.octets()
        return
    is_negative = words.has("-")
    word = words.take()
    if word.kind == "int":
        number = whole(word.text)
        if number >= INTEGERS_MAX or (is_negative and number > INTEGERS_MAX >> 1):
            raise InvalidSchema(f"the number {word.text} is too large")
        if is_negative:
            option.negative_int_value = -number
        else:
            option.positive_int_value = number
    elif word.kind == "float":
        option.double_value = -float(word.text) if is_negative else float(word.text)
    elif word.kind == "name" and is_negative:
        option.double_value = -float(word.text) if word.text in ("inf", "nan") else 0.0
    elif word.kind == "name":
        option.identifier_value = word.text
    else:
        raise words.wrong("a value")
