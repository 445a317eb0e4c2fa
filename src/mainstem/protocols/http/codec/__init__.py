"""Bytes <-> values: HTTP/1.1 messages, JSON content, the text that Prometheus reads."""

from mainstem.protocols.http.codec.json_content import Problem, decode_content, encode_error, encode_json
from mainstem.wire.http.codec import HttpCodec
from mainstem.wire.http.messages import Request, Response

__all__ = ["HttpCodec", "Problem", "Request", "Response", "decode_content", "encode_error", "encode_json"]
