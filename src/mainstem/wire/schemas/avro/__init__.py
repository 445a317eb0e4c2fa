"""Avro: schemas by the Avro 1.12 specification, and its rules of schema resolution."""
