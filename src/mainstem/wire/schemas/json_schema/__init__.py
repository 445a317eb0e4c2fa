"""JSON Schema, drafts 4 to 2020-12, and the rules of Confluent's registry for what may change."""
