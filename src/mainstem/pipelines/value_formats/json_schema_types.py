"""The Spark type of what a JSON Schema allows."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from mainstem.pipelines.errors import SchemaMismatch
from mainstem.wire.schemas.json_schema.nodes import Node

DEPTH_MAX = 50
_SIMPLE: dict[str, DataType] = {"string": StringType(), "boolean": BooleanType(), "null": NullType()}
_SAYS_NO_TYPE = ("not", "condition", "empty")


def json_schema_type(node: Node, path: str = "value", depth: int = 0) -> DataType:
    """Raises SchemaMismatch for what no Spark type can hold."""
    if depth > DEPTH_MAX:
        raise SchemaMismatch(f"`{path}` contains itself, which no Spark type can.")
    if node.kind in _SIMPLE:
        return _SIMPLE[node.kind]
    if node.kind == "number":
        return LongType() if node.word("type") == "integer" else DoubleType()
    if node.kind == "enum":
        return _type_of_values(node, path)
    if node.kind == "array":
        inner = node.inner("items")
        if inner is None:
            raise SchemaMismatch(f"The schema does not say what `{path}` has in it: read the value as string.")
        return ArrayType(json_schema_type(inner, f"{path}[]", depth + 1))
    if node.kind == "object":
        fields = [
            StructField(name, json_schema_type(inner, f"{path}.{name}", depth + 1))
            for name, inner in node.inner_by_name("properties").items()
        ]
        return StructType(fields)
    if node.kind == "combined":
        return _combined(node, path, depth)
    raise SchemaMismatch(f"The schema allows anything in `{path}`: read the value as string.")


def _combined(node: Node, path: str, depth: int) -> DataType:
    parts = [part for part in node.parts if part.kind not in _SAYS_NO_TYPE]
    if node.criterion == "allOf":
        typed = [part for part in parts if part.kind != "enum"] or parts
        kinds = [json_schema_type(part, path, depth + 1) for part in typed]
        structs = [kind for kind in kinds if isinstance(kind, StructType)]
        if structs and len(structs) == len(kinds):
            fields = {field.name: field for kind in structs for field in kind}
            return StructType(list(fields.values()))
        if kinds and len({kind.simpleString() for kind in kinds}) == 1:
            return kinds[0]
    else:
        kinds = [json_schema_type(part, path, depth + 1) for part in parts if part.kind != "null"]
        names = {kind.simpleString() for kind in kinds}
        if len(names) == 1:
            return kinds[0]
        if names == {"bigint", "double"}:
            return DoubleType()
    raise SchemaMismatch(f"The schema allows several types in `{path}`: read the value as string.")


def _type_of_values(node: Node, path: str) -> DataType:
    values = [node.word("const")] if "const" in node.place.content else list(node.word("enum") or ())
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str}:
        return StringType()
    if kinds == {bool}:
        return BooleanType()
    if kinds and kinds <= {int, float}:
        return LongType() if kinds == {int} else DoubleType()
    raise SchemaMismatch(f"The schema allows values of several types in `{path}`: read the value as string.")
