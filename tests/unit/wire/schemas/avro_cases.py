"""What the Avro specification says of readers and writers: older schema, newer schema, and what stands against reading
the older's data with the newer, and the newer's with the older. Nothing stands against it: empty."""

from typing import NamedTuple


class Case(NamedTuple):
    older: str
    newer: str
    backward: str = ""
    forward: str = ""


MISSING = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE, NAME, BRANCH = "TYPE_MISMATCH", "NAME_MISMATCH", "MISSING_UNION_BRANCH"
SYMBOLS, SIZE = "MISSING_ENUM_SYMBOLS", "FIXED_SIZE_MISMATCH"

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
READ = {  # Schema Resolution: "the writer's schema may be promoted to the reader's"
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


def _read(reader: str, writer: str) -> str:
    return "" if reader == writer or writer in READ.get(reader, ()) else TYPE


PROMOTIONS = [
    Case(f'"{older}"', f'"{newer}"', _read(newer, older), _read(older, newer))
    for older in PRIMITIVES
    for newer in PRIMITIVES
]


def r(*fields: str, name: str = "R", more: str = "") -> str:
    return f'{{"type":"record","name":"{name}"{more},"fields":[{",".join(fields)}]}}'


def f(name: str, kind: str = '"int"', more: str = "") -> str:
    return f'{{"name":"{name}","type":{kind}{more}}}'


def e(*symbols: str, name: str = "E", more: str = "") -> str:
    return f'{{"type":"enum","name":"{name}","symbols":[{",".join(f"{s!r}".replace(chr(39), chr(34)) for s in symbols)}]{more}}}'


def x(size: int, name: str = "F", more: str = "") -> str:
    return f'{{"type":"fixed","name":"{name}","size":{size}{more}}}'


def a(items: str) -> str:
    return f'{{"type":"array","items":{items}}}'


def m(values: str) -> str:
    return f'{{"type":"map","values":{values}}}'


D = ',"default":1'
NULL_INT, INT_NULL = '["null","int"]', '["int","null"]'

RECORDS = [
    Case(r(f("a")), r(f("a"))),
    Case(r(f("a")), r(f("a"), f("b")), MISSING),
    Case(r(f("a")), r(f("a"), f("b", more=D))),
    Case(r(f("a"), f("b")), r(f("a")), "", MISSING),
    Case(r(f("a"), f("b", more=D)), r(f("a"))),
    Case(r(f("a"), f("b")), r(f("b"), f("a"))),
    Case(r(f("a")), r(f("b")), MISSING, MISSING),
    Case(r(f("a")), r(f("b", more=',"aliases":["a"]')), "", MISSING),
    Case(r(f("a")), r(f("b", more=D)), "", MISSING),
    Case(r(f("a")), r(f("a", '"long"')), "", TYPE),
    Case(r(f("a", '"long"')), r(f("a", '"int"')), TYPE),
    Case(r(f("a")), r(f("a", '"string"')), TYPE, TYPE),
    Case(r(f("a")), r(f("a", NULL_INT)), "", TYPE),
    Case(r(f("a")), r(f("a", NULL_INT, ',"default":null')), "", TYPE),
    Case(r(f("a")), r(f("a"), f("b", NULL_INT, ',"default":null'))),
    Case(r(f("a")), r(f("a"), f("b", NULL_INT)), MISSING),
    Case(r(f("a")), r(f("a", more=',"doc":"x"'))),
    Case(r(f("a")), r(f("a", more=',"order":"ignore"'))),
    Case(r(f("a")), r(f("a", more=D))),
    Case(r(f("a")), r(f("a"), name="S"), NAME, NAME),
    Case(r(f("a")), r(f("a"), name="S", more=',"aliases":["R"]'), "", NAME),
    Case(r(f("a"), name="x.R"), r(f("a"), name="y.R")),
    Case(r(f("a"), name="x.R"), r(f("a"), name="S", more=',"aliases":["x.R"]'), "", NAME),
    Case(r(f("a"), name="R", more=',"namespace":"x"'), r(f("a"), name="x.R")),
    Case(r(), r()),
    Case(r(), r(f("a")), MISSING),
    Case(r(f("a", r(f("b"), name="I"))), r(f("a", r(f("b"), f("c"), name="I"))), MISSING),
    Case(r(f("a", r(f("b"), name="I"))), r(f("a", r(f("b"), f("c", more=D), name="I")))),
    Case(r(f("a", a('"int"'))), r(f("a", a('"long"'))), "", TYPE),
    Case(r(f("a", m('"int"'))), r(f("a", m('"string"'))), TYPE, TYPE),
    Case(r(f("n", '["null","R"]', ',"default":null')), r(f("n", '["null","R"]', ',"default":null'), f("v", more=D))),
    Case(r(f("n", '["null","R"]'), f("v")), r(f("n", '["null","R"]'), f("v", '"long"')), "", TYPE),
    Case(r(f("a")), '"int"', TYPE, TYPE),
    Case(r(f("a")), m('"int"'), TYPE, TYPE),
]
ENUMS = [
    Case(e("A"), e("A")),
    Case(e("A"), e("A", "B"), "", SYMBOLS),
    Case(e("A", "B"), e("A"), SYMBOLS),
    Case(e("A", "B"), e("A", more=',"default":"A"')),
    Case(e("A", "B"), e("B", "A")),
    Case(e("A"), e("A", name="G"), NAME, NAME),
    Case(e("A"), e("A", name="G", more=',"aliases":["E"]'), "", NAME),
    Case(e("A"), '"string"', TYPE, TYPE),
    Case(e("A"), '"int"', TYPE, TYPE),
    Case(e("A", "B"), e("C", "D"), SYMBOLS, SYMBOLS),
]
FIXED = [
    Case(x(4), x(4)),
    Case(x(4), x(5), SIZE, SIZE),
    Case(x(4), x(4, name="G"), NAME, NAME),
    Case(x(4), x(4, name="G", more=',"aliases":["F"]'), "", NAME),
    Case(x(4), '"bytes"', TYPE, TYPE),
    Case(x(4), '"string"', TYPE, TYPE),
]
COLLECTIONS = [
    Case(a('"int"'), a('"int"')),
    Case(a('"int"'), a('"double"'), "", TYPE),
    Case(a('"int"'), a(NULL_INT), "", TYPE),
    Case(a(NULL_INT), a('"int"'), TYPE),
    Case(a('"int"'), m('"int"'), TYPE, TYPE),
    Case(m('"int"'), m('"float"'), "", TYPE),
    Case(m('"bytes"'), m('"string"')),
    Case(a(a('"int"')), a(a('"long"')), "", TYPE),
    Case(a('"int"'), '"int"', TYPE, TYPE),
]
UNIONS = [
    Case(NULL_INT, NULL_INT),
    Case(NULL_INT, INT_NULL),
    Case(NULL_INT, '["null","int","string"]', "", BRANCH),
    Case('["null","int","string"]', NULL_INT, BRANCH),
    Case('"int"', NULL_INT, "", TYPE),
    Case('"int"', '["null","long"]', "", TYPE),
    Case('"long"', '["null","int"]', BRANCH, TYPE),
    Case('["int"]', '"int"'),
    Case('["int"]', '"long"', "", BRANCH),
    Case('["int","float"]', '"double"', "", BRANCH),
    Case('["int","string"]', '"double"', TYPE, BRANCH),
    Case('["null","int"]', '["null","long"]', "", BRANCH),
    Case('["int"]', '["string","null"]', BRANCH, BRANCH),
    Case("[]", '"int"', "", BRANCH),
    Case("[]", "[]"),
    Case(f'["null",{r(f("a"))}]', f'["null",{r(f("a"), f("b", more=D))}]'),
    Case(f'["null",{r(f("a"))}]', f'["null",{r(f("a"), f("b"))}]', BRANCH),
    Case('["bytes"]', '["string"]'),
]
LOGICAL = [
    Case('"long"', '{"type":"long","logicalType":"timestamp-millis"}'),
    Case('{"type":"int","logicalType":"date"}', '{"type":"long","logicalType":"timestamp-millis"}', "", TYPE),
    Case('{"type":"long","logicalType":"timestamp-millis"}', '{"type":"long","logicalType":"timestamp-micros"}'),
    Case('{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}', '"bytes"'),
    Case('{"type":"string","logicalType":"uuid"}', '"string"'),
    Case('"string"', '{"type":"int","logicalType":"date"}', TYPE, TYPE),
]
AVRO_CASES = [*PROMOTIONS, *RECORDS, *ENUMS, *FIXED, *COLLECTIONS, *UNIONS, *LOGICAL]
