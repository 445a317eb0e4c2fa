"""As much of JSON Schema as our document uses; anything else is an error, so that nothing goes unchecked."""

from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
NOTES = {"title", "description", "default"}
RULES = {"$ref", "type", "properties", "required", "additionalProperties", "items"}
RULES |= {"anyOf", "enum", "minimum", "maximum", "minItems", "maxItems", "prefixItems"}


def mismatches(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> list[str]:
    """Where the value is not as the schema says."""
    unknown = schema.keys() - NOTES - RULES
    assert not unknown, f"not checked here: {unknown}"
    if "$ref" in schema:
        return mismatches(value, resolve(schema["$ref"], document), document, at)
    if "anyOf" in schema:
        tried = [mismatches(value, option, document, at) for option in schema["anyOf"]]
        return [] if any(not found for found in tried) else [f"{at}: none of {tried}"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r}"]
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds):
        return [f"{at}: {value!r} is not {kinds}"]
    if isinstance(value, dict):
        return _in_object(value, schema, document, at)
    if isinstance(value, list):
        return _in_list(value, schema, document, at)
    is_within = schema.get("minimum", value) <= value <= schema.get("maximum", value) if kinds != ["null"] else True
    return [] if is_within else [f"{at}: {value!r}"]


def _in_object(value: dict[str, Any], schema: dict[str, Any], document: dict[str, Any], at: str) -> list[str]:
    properties = schema.get("properties", {})
    found = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, item in value.items():
        rest = schema.get("additionalProperties", True)
        if name in properties:
            found += mismatches(item, properties[name], document, f"{at}.{name}")
        elif isinstance(rest, dict):
            found += mismatches(item, rest, document, f"{at}.{name}")
        elif properties:
            found.append(f"{at}: {name} is not described")
    return found


def _in_list(value: list[Any], schema: dict[str, Any], document: dict[str, Any], at: str) -> list[str]:
    found = []
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        found.append(f"{at}: {len(value)} items")
    first = schema.get("prefixItems", [])
    for number, item in enumerate(value):
        described = first[number] if number < len(first) else schema.get("items", {})
        if described is False:
            found.append(f"{at}: item {number} is not described")
        else:
            found += mismatches(item, described, document, f"{at}[{number}]")
    return found


def resolve(reference: str, document: dict[str, Any]) -> dict[str, Any]:
    """What a reference within the document means."""
    found: Any = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def references(value: Any) -> list[str]:
    """All references in a document."""
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [reference for item in value.values() for reference in references(item)]
    if isinstance(value, list):
        return [reference for item in value for reference in references(item)]
    return []
