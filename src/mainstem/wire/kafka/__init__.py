"""Kafka's messages: tables of fields, and the codec that follows them.

For everything but the hottest few messages, which their adapter reads by hand.
"""

from mainstem.wire.kafka.api_keys import ApiKey
from mainstem.wire.kafka.apis import APIS, api_of
from mainstem.wire.kafka.codec import element_encoder
from mainstem.wire.kafka.encoding import Encoded
from mainstem.wire.kafka.error_codes import RETRIABLE, ErrorCode, is_retriable
from mainstem.wire.kafka.messages import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from mainstem.wire.kafka.reader import ELEMENTS_MAX
from mainstem.wire.kafka.schema import ZERO_UUID, Api, Message

__all__ = [
    "APIS",
    "ELEMENTS_MAX",
    "RETRIABLE",
    "ZERO_UUID",
    "Api",
    "ApiKey",
    "Encoded",
    "ErrorCode",
    "Message",
    "RequestHeader",
    "api_of",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "element_encoder",
    "encode_request",
    "encode_response",
    "is_retriable",
]
