"""Bytes <-> values: JSON as RabbitMQ writes it."""

from mainstem.protocols.management.codec.json_content import decode_body, encode_error, encode_json, encode_refusal

__all__ = ["decode_body", "encode_error", "encode_json", "encode_refusal"]
