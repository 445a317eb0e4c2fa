"""Schemas without a store: how their text is read, when two are the same, and whether one reads what another wrote.

`formats.parse_schema` reads a text; what it answers knows its canonical text and compares itself with an older schema.
`levels.check_level` applies a level of compatibility. `framing` is how a record names its schema.
"""
