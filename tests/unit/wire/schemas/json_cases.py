"""What Confluent's rules say of a JSON Schema that follows another: older, newer, and what stands against the one and the other
direction."""

from tests.unit.wire.schemas.avro_cases import Case

TYPE = "TYPE_CHANGED"
SUBS = "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
TO_OPEN, FROM_CLOSED = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
REQUIRED = "REQUIRED_ATTRIBUTE_ADDED"
S, W, N, B = ('{"type":"string"}', '{"type":"integer"}', '{"type":"number"}', '{"type":"boolean"}')


def o(properties: str = "", more: str = "") -> str:
    return f'{{"type":"object","properties":{{{properties}}}{more}}}'


def t(kind: str, more: str) -> str:
    return f'{{"type":"{kind}",{more}}}'


CLOSED = ',"additionalProperties":false'
STRINGS = ',"additionalProperties":{"type":"string"}'
NEEDS_A = ',"required":["a"]'
A, AB = f'"a":{S}', f'"a":{S},"b":{S}'

TYPES = [
    Case(S, S),
    Case(S, W, TYPE, TYPE),
    Case(S, "{}", "", TYPE),
    Case(S, "true", "", TYPE),
    Case("false", S, "", TYPE),
    Case("{}", "true"),
    Case(W, N, "", "TYPE_NARROWED"),
    Case(B, '{"type":"null"}', TYPE, TYPE),
    Case(S, '{"type":["string","null"]}', "", TYPE),
    Case('{"type":["string","null"]}', '{"type":["null","string"]}'),
    Case('{"type":["string","null"]}', '{"type":["null","integer"]}', SUBS, SUBS),
    Case('{"type":["string","null"]}', '{"type":["null","integer","string"]}', "", "SUM_TYPE_NARROWED"),
    Case('{"type":["string"]}', S),
    Case(W, '{"type":["number","null"]}', "", TYPE),
    Case('{"title":"x","type":"string"}', '{"title":"y","description":"z","type":"string","default":"q"}'),
    Case(t("string", '"format":"date"'), S),
]
STRING_BOUNDS = [
    Case(t("string", '"maxLength":5'), t("string", '"maxLength":9'), "", "MAX_LENGTH_DECREASED"),
    Case(S, t("string", '"maxLength":9'), "MAX_LENGTH_ADDED"),
    Case(t("string", '"minLength":5'), t("string", '"minLength":2'), "", "MIN_LENGTH_INCREASED"),
    Case(S, t("string", '"minLength":1'), "MIN_LENGTH_ADDED"),
    Case(S, t("string", '"pattern":"a"'), "PATTERN_ADDED"),
    Case(t("string", '"pattern":"b"'), t("string", '"pattern":"a"'), "PATTERN_CHANGED", "PATTERN_CHANGED"),
    Case(t("string", '"pattern":"b"'), t("string", '"pattern":"b"')),
]
NUMBER_BOUNDS = [
    Case(t("number", '"maximum":5'), t("number", '"maximum":9'), "", "MAXIMUM_DECREASED"),
    Case(N, t("number", '"maximum":9'), "MAXIMUM_ADDED"),
    Case(t("number", '"minimum":5'), t("number", '"minimum":2'), "", "MINIMUM_INCREASED"),
    Case(N, t("number", '"minimum":0'), "MINIMUM_ADDED"),
    Case(N, t("number", '"exclusiveMaximum":9'), "EXCLUSIVE_MAXIMUM_ADDED"),
    Case(t("number", '"exclusiveMinimum":1'), t("number", '"exclusiveMinimum":0'), "", "EXCLUSIVE_MINIMUM_INCREASED"),
    Case(N, t("number", '"multipleOf":2'), "MULTIPLE_OF_ADDED"),
    Case(t("number", '"multipleOf":4'), t("number", '"multipleOf":2'), "", "MULTIPLE_OF_EXPANDED"),
    Case(t("number", '"multipleOf":4'), t("number", '"multipleOf":6'), "MULTIPLE_OF_CHANGED", "MULTIPLE_OF_CHANGED"),
]
ENUMS = [
    Case('{"enum":["a"]}', '{"enum":["a","b"]}', "", "ENUM_ARRAY_NARROWED"),
    Case('{"enum":["a","b"]}', '{"enum":["b","c"]}', "ENUM_ARRAY_CHANGED", "ENUM_ARRAY_CHANGED"),
    Case('{"enum":["a","b"]}', '{"enum":["b","a"]}'),
    Case('{"const":"a"}', '{"enum":["b","a"]}', "", "ENUM_ARRAY_NARROWED"),
    Case('{"const":"a"}', '{"const":"b"}', "ENUM_ARRAY_CHANGED", "ENUM_ARRAY_CHANGED"),
    Case('{"enum":["a"]}', S, TYPE, TYPE),
    Case('{"enum":[1]}', '{"enum":[true]}', "ENUM_ARRAY_CHANGED", "ENUM_ARRAY_CHANGED"),
]
OBJECTS = [
    Case(o(A), o(A)),
    Case(o(A), o(AB), TO_OPEN),
    Case(o(A), o(f'{A},"b":{{}}')),
    Case(o(A), o(f'{A},"b":true')),
    Case(o(A, CLOSED), o(AB, CLOSED), "", FROM_CLOSED),
    Case(o(f'{A},"b":false', CLOSED), o(A, CLOSED)),
    Case(o(A, CLOSED), o(A), "", "ADDITIONAL_PROPERTIES_REMOVED"),
    Case(o(A, CLOSED), o(A, STRINGS), "", "ADDITIONAL_PROPERTIES_REMOVED"),
    Case(o(A), o(A, STRINGS), "ADDITIONAL_PROPERTIES_NARROWED"),
    Case(o(A, STRINGS), o(AB, STRINGS)),
    Case(
        o(A, STRINGS),
        o(f'{A},"b":{W}', STRINGS),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    Case(
        o(A, STRINGS), o(A, ',"additionalProperties":{"type":"integer"}'), TYPE, TYPE
    ),
    Case(o(A, ',"patternProperties":{"^b":{"type":"string"}},"additionalProperties":false'),
         o(AB, ',"patternProperties":{"^b":{"type":"string"}},"additionalProperties":false')),
    Case(o(A, CLOSED), o(AB, CLOSED + ',"required":["b"]'), "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", FROM_CLOSED),
    Case(o(A, CLOSED), o(f'{A},"b":{{"type":"string","default":""}}', CLOSED + ',"required":["b"]'), "", FROM_CLOSED),
    Case(o(A), o(A, NEEDS_A), REQUIRED),
    Case(o(A), o('"a":{"type":"string","default":"x"}', NEEDS_A)),
    Case(o(A), o(f'"a":{W}'), TYPE, TYPE),
    Case(o(f'"a":{W}'), o(f'"a":{N}'), "", "TYPE_NARROWED"),
    Case(o(f'"a":{o(A)}'), o(f'"a":{o(AB)}'), TO_OPEN),
    Case(o(f'"a":{o(A, CLOSED)}'), o(f'"a":{o(AB, CLOSED)}'), "", FROM_CLOSED),
    Case(o(A, ',"maxProperties":3'), o(A, ',"maxProperties":4'), "", "MAX_PROPERTIES_DECREASED"),
    Case(o(A), o(A, ',"minProperties":1'), "MIN_PROPERTIES_ADDED"),
    Case(o(A), o(A, ',"dependencies":{"a":["b"]}'), "DEPENDENCY_ARRAY_ADDED"),
    Case(o(A, ',"dependencies":{"a":["b"]}'), o(A, ',"dependencies":{"a":["b","c"]}'), "DEPENDENCY_ARRAY_EXTENDED"),
    Case(o(A, ',"dependencies":{"a":["b"]}'), o(A, ',"dependencies":{"a":["c"]}'), "DEPENDENCY_ARRAY_CHANGED",
         "DEPENDENCY_ARRAY_CHANGED"),
    Case(o(A), o(A, ',"dependencies":{"a":{"type":"object"}}'), "DEPENDENCY_SCHEMA_ADDED"),
    Case(o(A), S, TYPE, TYPE),
]  # fmt: skip
ARRAYS = [
    Case(t("array", f'"items":{S}'), t("array", f'"items":{S}')),
    Case(t("array", f'"items":{W}'), t("array", f'"items":{N}'), "", "TYPE_NARROWED"),
    Case('{"type":"array"}', t("array", f'"items":{S}'), "SCHEMA_ADDED"),
    Case(t("array", '"maxItems":3'), t("array", '"maxItems":5'), "", "MAX_ITEMS_DECREASED"),
    Case('{"type":"array"}', t("array", '"minItems":3'), "MIN_ITEMS_ADDED"),
    Case('{"type":"array"}', t("array", '"uniqueItems":true'), "UNIQUE_ITEMS_ADDED"),
    Case(t("array", f'"items":[{S}]'), t("array", f'"items":[{S},{W}]'), "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),
    Case(t("array", f'"items":[{S}],"additionalItems":false'), t("array", f'"items":[{S},{W}],"additionalItems":false'),
         "", "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    Case(t("array", f'"items":[{S}],"additionalItems":{W}'), t("array", f'"items":[{S},{W}],"additionalItems":{W}')),
    Case(t("array", f'"items":[{S}],"additionalItems":false'), t("array", f'"items":[{S}]'), "", "ADDITIONAL_ITEMS_REMOVED"),
    Case(t("array", f'"items":[{S}]'), t("array", f'"items":[{S}],"additionalItems":{W}'), "ADDITIONAL_ITEMS_NARROWED"),
    Case(t("array", f'"items":[{S}]'), t("array", f'"items":[{W}]'), TYPE, TYPE),
]  # fmt: skip
COMBINED = [
    Case(f'{{"oneOf":[{S}]}}', f'{{"oneOf":[{S},{W}]}}', "", "SUM_TYPE_NARROWED"),
    Case(f'{{"oneOf":[{S},{W}]}}', f'{{"oneOf":[{W},{S}]}}'),
    Case(f'{{"oneOf":[{S},{W}]}}', f'{{"anyOf":[{W},{S}]}}', "", "COMBINED_TYPE_CHANGED"),
    Case(f'{{"anyOf":[{S},{W}]}}', f'{{"allOf":[{W},{S}]}}', "COMBINED_TYPE_CHANGED"),
    Case(f'{{"allOf":[{S}]}}', f'{{"oneOf":[{S}]}}'),
    Case(S, f'{{"oneOf":[{S},{W}]}}', "", TYPE),
    Case(S, f'{{"allOf":[{S}]}}'),
    Case(S, f'{{"oneOf":[{B},{W}]}}', TYPE, TYPE),
    Case(f'{{"allOf":[{S},{t("string", chr(34) + "maxLength" + chr(34) + ":5")}]}}', f'{{"allOf":[{S}]}}', "",
         "PRODUCT_TYPE_EXTENDED"),
    Case(f'{{"oneOf":[{S},{B}]}}', f'{{"oneOf":[{S},{W}]}}', SUBS, SUBS),
    Case(f'{{"oneOf":[{o(A, CLOSED)}]}}', f'{{"oneOf":[{o(AB, CLOSED)}]}}', "", SUBS),
    Case(f'{{"not":{W}}}', f'{{"not":{S}}}', "NOT_TYPE_EXTENDED", "NOT_TYPE_EXTENDED"),
    Case(f'{{"not":{N}}}', f'{{"not":{W}}}', "", "NOT_TYPE_EXTENDED"),
    Case('{"if":{"type":"string"},"then":{"maxLength":3}}', '{"if":{"type":"string"},"then":{"maxLength":4}}',
         "CONDITION_CHANGED", "CONDITION_CHANGED"),
]  # fmt: skip


def ref(definition: str, more: str = "") -> str:
    return f'{{"type":"object","properties":{{"a":{{"$ref":"#/definitions/x"}}}},"definitions":{{"x":{definition}}}{more}}}'


REFERENCES = [
    Case(ref(S), ref(S)),
    Case(ref(S), ref(W), TYPE, TYPE),
    Case(ref(S), o(A)),
    Case(o(A), ref('{"type":["string","null"]}'), "", TYPE),
    Case(ref('{"type":"object","properties":{"n":{"$ref":"#/definitions/x"}}}'),
         ref('{"type":"object","properties":{"n":{"$ref":"#/definitions/x"},"v":{"type":"string"}}}'), TO_OPEN),
    Case(ref(o(f'"n":{{"$ref":"#/definitions/x"}},{A}', CLOSED)), ref(o(f'"n":{{"$ref":"#/definitions/x"}},{AB}', CLOSED)),
         "", FROM_CLOSED),
]  # fmt: skip
JSON_CASES = [*TYPES, *STRING_BOUNDS, *NUMBER_BOUNDS, *ENUMS, *OBJECTS, *ARRAYS, *COMBINED, *REFERENCES]
