"""Small Avro schemas that are often almost the same, and data of theirs."""

from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5, "bytes": "a", "string": "b",
}  # fmt: skip
ASCII = st.text("ab", max_size=5).map(str.encode)
"""Bytes may be read as text, which they must be for that."""
DATA: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(), "boolean": st.booleans(), "int": st.integers(-1000, 1000), "long": st.integers(-(2**60), 2**60),
    "float": st.floats(width=32, allow_nan=False), "double": st.floats(allow_nan=False), "bytes": ASCII,
    "string": st.text("ab", max_size=5),
}  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, names: tuple[str, ...] = ("R", "S", "T")) -> Any:
    kinds = ["primitive", "enum", "fixed"] + (["array", "map", "record", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind in ("enum", "fixed", "record") and not names:
        kind = "primitive"
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "enum":
        return {"type": "enum", "name": f"E{names[0]}", "symbols": draw(st.sampled_from([["A"], ["A", "B"], ["B"]]))}
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{names[0]}", "size": draw(st.integers(1, 2))}
    if kind in ("array", "map"):
        return {"type": kind, "items" if kind == "array" else "values": draw(schemas(depth - 1, names))}
    if kind == "union":
        return draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True))
    fields = []
    for number, name in enumerate(draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True))):
        inner = draw(schemas(depth - 1, (f"{names[0]}{number}",)))
        field = {"name": name, "type": inner}
        if isinstance(inner, str) and draw(st.booleans()):
            field["default"] = DEFAULTS[inner]
        fields.append(field)
    return {"type": "record", "name": names[0], "fields": fields}


def datum_of(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return DATA[schema]
    if isinstance(schema, list):
        return st.one_of(*(datum_of(branch) for branch in schema))
    kind = schema["type"]
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "array":
        return st.lists(datum_of(schema["items"]), max_size=2)
    if kind == "map":
        return st.dictionaries(st.sampled_from("xy"), datum_of(schema["values"]), max_size=2)
    return st.fixed_dictionaries({field["name"]: datum_of(field["type"]) for field in schema["fields"]})


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """The same schema after some changes, most of which keep it readable."""
    if isinstance(schema, str):
        wider = {
            "int": ["long", "double", ["null", "int"]],
            "long": ["float"],
            "bytes": ["string"],
            "string": ["bytes"],
        }
        return draw(st.sampled_from([schema, *wider.get(schema, []), ["null", schema] if schema != "null" else "int"]))
    if isinstance(schema, list):
        return draw(st.sampled_from([schema, schema[::-1], schema[:1]]))
    if schema["type"] == "enum":
        more = {"symbols": ["B", "A"]} if draw(st.booleans()) else {"symbols": ["C"], "default": "C"}
        return schema | more
    for inner in ("items", "values"):
        if inner in schema:
            return schema | {inner: draw(evolved(schema[inner]))}
    if schema["type"] == "record":
        kept = [field | {"type": draw(evolved(field["type"]))} for field in schema["fields"] if draw(st.booleans())]
        kept = [{key: value for key, value in field.items() if key != "default"} for field in kept]
        return schema | {"fields": [*kept, {"name": "new", "type": "string", "default": "x"}]}
    return schema
