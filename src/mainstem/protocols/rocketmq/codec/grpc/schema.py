"""Messages of `apache.rocketmq.v2.MessagingService`, by a table of our own (`wire/protobuf`)."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError, Message

from mainstem.protocols.rocketmq.errors import MalformedFrame
from mainstem.wire.protobuf import message_classes

PACKAGE = "mainstem.rocketmq.v2"
SERVICE = "/apache.rocketmq.v2.MessagingService/"

_TABLE = """
Timestamp: seconds 1 int64, nanos 2 int32
Duration: seconds 1 int64, nanos 2 int32
Resource: resource_namespace 1 string, name 2 string
FilterExpression: type 1 int32, expression 2 string
Exponential: initial 1 Duration, max 2 Duration, multiplier 3 float
Customized: next 1 *Duration
RetryPolicy: max_attempts 1 int32, exponential_backoff 2 Exponential, customized_backoff 3 Customized
SubscriptionEntry: topic 1 Resource, expression 2 FilterExpression
Address: host 1 string, port 2 int32
Endpoints: scheme 1 int32, addresses 2 *Address
Broker: name 1 string, id 2 int32, endpoints 3 Endpoints
MessageQueue: topic 1 Resource, id 2 int32, permission 3 int32, broker 4 Broker, accept_message_types 5 *int32
Digest: type 1 int32, checksum 2 string
SystemProperties: tag 1 string, keys 2 *string, message_id 3 string, body_digest 4 Digest, body_encoding 5 int32, \
message_type 6 int32, born_timestamp 7 Timestamp, born_host 8 string, store_timestamp 9 Timestamp, store_host 10 string, \
delivery_timestamp 11 Timestamp, receipt_handle 12 string, queue_id 13 int32, queue_offset 14 int64, \
invisible_duration 15 Duration, delivery_attempt 16 int32, message_group 17 string, trace_context 18 string, \
orphaned_transaction_recovery_duration 19 Duration, lite_topic 21 string, priority 22 int32
Property: key 1 string, value 2 string
MessageContent: topic 1 Resource, user_properties 2 *Property, system_properties 3 SystemProperties, body 4 bytes
Status: code 1 int32, message 2 string
Agent: language 1 int32, version 2 string, platform 3 string, hostname 4 string
Publishing: topics 1 *Resource, max_body_size 2 int32, validate_message_type 3 bool
Subscription: group 1 Resource, subscriptions 2 *SubscriptionEntry, fifo 3 bool, receive_batch_size 4 int32, \
long_polling_timeout 5 Duration
Metric: on 1 bool, endpoints 2 Endpoints
Settings: client_type 1 int32, access_point 2 Endpoints, backoff_policy 3 RetryPolicy, request_timeout 4 Duration, \
publishing 5 Publishing, subscription 6 Subscription, user_agent 7 Agent, metric 8 Metric
QueryRouteRequest: topic 1 Resource, endpoints 2 Endpoints
QueryRouteResponse: status 1 Status, message_queues 2 *MessageQueue
SendMessageRequest: messages 1 *MessageContent
SendResult: status 1 Status, message_id 2 string, transaction_id 3 string, offset 4 int64, recall_handle 5 string
SendMessageResponse: status 1 Status, entries 2 *SendResult
QueryAssignmentRequest: topic 1 Resource, group 2 Resource, endpoints 3 Endpoints
Assignment: message_queue 1 MessageQueue
QueryAssignmentResponse: status 1 Status, assignments 2 *Assignment
ReceiveMessageRequest: group 1 Resource, message_queue 2 MessageQueue, filter_expression 3 FilterExpression, batch_size 4 int32, \
invisible_duration 5 Duration, auto_renew 6 bool, long_polling_timeout 7 Duration, attempt_id 8 string
ReceiveMessageResponse: status 1 Status, message 2 MessageContent, delivery_timestamp 3 Timestamp
AckEntry: message_id 1 string, receipt_handle 2 string
AckMessageRequest: group 1 Resource, topic 2 Resource, entries 3 *AckEntry
AckResult: message_id 1 string, receipt_handle 2 string, status 3 Status
AckMessageResponse: status 1 Status, entries 2 *AckResult
ForwardMessageToDeadLetterQueueRequest: group 1 Resource, topic 2 Resource, receipt_handle 3 string, message_id 4 string, \
delivery_attempt 5 int32, max_delivery_attempts 6 int32
HeartbeatRequest: group 1 Resource, client_type 2 int32
RecoverOrphaned: message 1 MessageContent, transaction_id 2 string
TelemetryCommand: status 1 Status, settings 2 Settings, recover_orphaned_transaction_command 5 RecoverOrphaned
EndTransactionRequest: topic 1 Resource, message_id 2 string, transaction_id 3 string, resolution 4 int32, source 5 int32, \
trace_context 6 string
NotifyClientTerminationRequest: group 1 Resource
ChangeInvisibleDurationRequest: group 1 Resource, topic 2 Resource, receipt_handle 3 string, invisible_duration 4 Duration, \
message_id 5 string
ChangeInvisibleDurationResponse: status 1 Status, receipt_handle 2 string
RecallMessageRequest: topic 1 Resource, recall_handle 2 string
RecallMessageResponse: status 1 Status, message_id 2 string
StatusResponse: status 1 Status
"""

MESSAGES = message_classes(PACKAGE, _TABLE)


def decode(name: str, data: bytes) -> Any:
    """A message of this name. Raises MalformedFrame."""
    message = MESSAGES[name]()
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"{name} cannot be read: {error}") from None
    return message


def new(kind: str, /, **fields: Any) -> Any:
    """A message of this kind with these fields."""
    return MESSAGES[kind](**fields)


def encode(message: Message) -> bytes:
    """As bytes."""
    data: bytes = message.SerializeToString()
    return data
