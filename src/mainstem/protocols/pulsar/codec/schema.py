"""Commands of the binary protocol and what surrounds messages, by a table of our own (`wire/protobuf`).

A command is one field of `BaseCommand`, under the number that is its type.
"""

from __future__ import annotations

import enum
from typing import Any

from google.protobuf.message import DecodeError, Message

from mainstem.protocols.pulsar.errors import MalformedFrame
from mainstem.wire.protobuf import message_classes

PACKAGE = "mainstem.pulsar"
UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF


class Kind(enum.IntEnum):
    """Types of commands."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    FLOW = 11
    UNSUBSCRIBE = 12
    SUCCESS = 13
    ERROR = 14
    CLOSE_PRODUCER = 15
    CLOSE_CONSUMER = 16
    PRODUCER_SUCCESS = 17
    PING = 18
    PONG = 19
    REDELIVER = 20
    PARTITIONED_METADATA = 21
    PARTITIONED_METADATA_RESPONSE = 22
    LOOKUP = 23
    LOOKUP_RESPONSE = 24
    CONSUMER_STATS = 25
    CONSUMER_STATS_RESPONSE = 26
    REACHED_END_OF_TOPIC = 27
    SEEK = 28
    GET_LAST_MESSAGE_ID = 29
    GET_LAST_MESSAGE_ID_RESPONSE = 30
    ACTIVE_CONSUMER_CHANGE = 31
    GET_TOPICS = 32
    GET_TOPICS_RESPONSE = 33
    GET_SCHEMA = 34
    GET_SCHEMA_RESPONSE = 35
    AUTH_CHALLENGE = 36
    AUTH_RESPONSE = 37
    ACK_RESPONSE = 38
    GET_OR_CREATE_SCHEMA = 39
    GET_OR_CREATE_SCHEMA_RESPONSE = 40
    NEW_TXN = 50
    NEW_TXN_RESPONSE = 51
    ADD_PARTITION_TO_TXN = 52
    ADD_PARTITION_TO_TXN_RESPONSE = 53
    ADD_SUBSCRIPTION_TO_TXN = 54
    ADD_SUBSCRIPTION_TO_TXN_RESPONSE = 55
    END_TXN = 56
    END_TXN_RESPONSE = 57
    TC_CLIENT_CONNECT = 62
    TC_CLIENT_CONNECT_RESPONSE = 63
    WATCH_TOPIC_LIST = 64
    WATCH_TOPIC_LIST_SUCCESS = 65
    WATCH_TOPIC_UPDATE = 66
    WATCH_TOPIC_LIST_CLOSE = 67


_TXN = "txnid_least_bits 2 uint64, txnid_most_bits 3 uint64"
_TXN_RESPONSE = f"request_id 1 uint64, {_TXN}, error 4 int32, message 5 string"

_TABLE = f"""
KeyValue: key 1 string, value 2 string
KeyLongValue: key 1 string, value 2 uint64
Schema: name 1 string, schema_data 3 bytes, type 4 int32, properties 5 *KeyValue
MessageIdData: ledgerId 1 uint64, entryId 2 uint64, partition 3 int32, batch_index 4 int32, ack_set 5 *int64, \
batch_size 6 int32, first_chunk_message_id 7 MessageIdData
IntRange: start 1 int32, end 2 int32
EncryptionKeys: key 1 string, value 2 bytes, metadata 3 *KeyValue
MessageMetadata: producer_name 1 string, sequence_id 2 uint64, publish_time 3 uint64, properties 4 *KeyValue, \
replicated_from 5 string, partition_key 6 string, replicate_to 7 *string, compression 8 int32, uncompressed_size 9 uint32, \
num_messages_in_batch 11 int32, event_time 12 uint64, encryption_keys 13 *EncryptionKeys, encryption_algo 14 string, \
encryption_param 15 bytes, schema_version 16 bytes, partition_key_b64_encoded 17 bool, ordering_key 18 bytes, \
deliver_at_time 19 int64, marker_type 20 int32, txnid_least_bits 22 uint64, txnid_most_bits 23 uint64, \
highest_sequence_id 24 uint64, null_value 25 bool, uuid 26 string, num_chunks_from_msg 27 int32, \
total_chunk_msg_size 28 int32, chunk_id 29 int32, null_partition_key 30 bool, compacted_batch_indexes 31 *int32, \
schema_id 32 bytes
SingleMessageMetadata: properties 1 *KeyValue, partition_key 2 string, payload_size 3 int32, compacted_out 4 bool, \
event_time 5 uint64, partition_key_b64_encoded 6 bool, ordering_key 7 bytes, sequence_id 8 uint64, null_value 9 bool, \
null_partition_key 10 bool
FeatureFlags: supports_auth_refresh 1 bool, supports_broker_entry_metadata 2 bool, supports_partial_producer 3 bool, \
supports_topic_watchers 4 bool, supports_get_partitioned_metadata_without_auto_creation 5 bool
Connect: client_version 1 string, auth_method 2 int32, auth_data 3 bytes, protocol_version 4 int32, auth_method_name 5 string, \
proxy_to_broker_url 6 string, original_principal 7 string, original_auth_data 8 string, original_auth_method 9 string, \
feature_flags 10 FeatureFlags, proxy_version 11 string
Connected: server_version 1 string, protocol_version 2 int32, max_message_size 3 int32, feature_flags 4 FeatureFlags
AuthData: auth_method_name 1 string, auth_data 2 bytes
AuthChallenge: server_version 1 string, challenge 2 AuthData, protocol_version 3 int32
AuthResponse: client_version 1 string, response 2 AuthData, protocol_version 3 int32
KeySharedMeta: keySharedMode 1 int32, hashRanges 3 *IntRange, allowOutOfOrderDelivery 4 bool
Subscribe: topic 1 string, subscription 2 string, subType 3 int32, consumer_id 4 uint64, request_id 5 uint64, \
consumer_name 6 string, priority_level 7 int32, durable 8 bool, start_message_id 9 MessageIdData, metadata 10 *KeyValue, \
read_compacted 11 bool, schema 12 Schema, initialPosition 13 int32, replicate_subscription_state 14 bool, \
force_topic_creation 15 bool, start_message_rollback_duration_sec 16 uint64, keySharedMeta 17 KeySharedMeta, \
subscription_properties 18 *KeyValue, consumer_epoch 19 uint64
Producer: topic 1 string, producer_id 2 uint64, request_id 3 uint64, producer_name 4 string, encrypted 5 bool, \
metadata 6 *KeyValue, schema 7 Schema, epoch 8 uint64, user_provided_producer_name 9 bool, producer_access_mode 10 int32, \
topic_epoch 11 uint64, txn_enabled 12 bool, initial_subscription_name 13 string
Send: producer_id 1 uint64, sequence_id 2 uint64, num_messages 3 int32, txnid_least_bits 4 uint64, txnid_most_bits 5 uint64, \
highest_sequence_id 6 uint64, is_chunk 7 bool, marker 8 bool, message_id 9 MessageIdData
SendReceipt: producer_id 1 uint64, sequence_id 2 uint64, message_id 3 MessageIdData, highest_sequence_id 4 uint64
SendError: producer_id 1 uint64, sequence_id 2 uint64, error 3 int32, message 4 string
Delivery: consumer_id 1 uint64, message_id 2 MessageIdData, redelivery_count 3 uint32, ack_set 4 *int64, \
consumer_epoch 5 uint64
Ack: consumer_id 1 uint64, ack_type 2 int32, message_id 3 *MessageIdData, validation_error 4 int32, \
properties 5 *KeyLongValue, txnid_least_bits 6 uint64, txnid_most_bits 7 uint64, request_id 8 uint64
AckResponse: consumer_id 1 uint64, txnid_least_bits 2 uint64, txnid_most_bits 3 uint64, error 4 int32, message 5 string, \
request_id 6 uint64
ActiveConsumerChange: consumer_id 1 uint64, is_active 2 bool
Flow: consumer_id 1 uint64, messagePermits 2 uint32
Unsubscribe: consumer_id 1 uint64, request_id 2 uint64, force 3 bool
Seek: consumer_id 1 uint64, request_id 2 uint64, message_id 3 MessageIdData, message_publish_time 4 uint64
ReachedEndOfTopic: consumer_id 1 uint64
CloseProducer: producer_id 1 uint64, request_id 2 uint64, assignedBrokerServiceUrl 3 string, \
assignedBrokerServiceUrlTls 4 string
CloseConsumer: consumer_id 1 uint64, request_id 2 uint64, assignedBrokerServiceUrl 3 string, \
assignedBrokerServiceUrlTls 4 string
Redeliver: consumer_id 1 uint64, message_ids 2 *MessageIdData, consumer_epoch 3 uint64
Success: request_id 1 uint64, schema 2 Schema
ProducerSuccess: request_id 1 uint64, producer_name 2 string, last_sequence_id 3 int64, schema_version 4 bytes, \
topic_epoch 5 uint64, producer_ready 6 bool
Error: request_id 1 uint64, error 2 int32, message 3 string
Empty:
PartitionedMetadata: topic 1 string, request_id 2 uint64, original_principal 3 string, original_auth_data 4 string, \
original_auth_method 5 string, metadata_auto_creation_enabled 6 bool
PartitionedMetadataResponse: partitions 1 uint32, request_id 2 uint64, response 3 int32, error 4 int32, message 5 string
Lookup: topic 1 string, request_id 2 uint64, authoritative 3 bool, original_principal 4 string, original_auth_data 5 string, \
original_auth_method 6 string, advertised_listener_name 7 string, properties 8 *KeyValue
LookupResponse: brokerServiceUrl 1 string, brokerServiceUrlTls 2 string, response 3 int32, request_id 4 uint64, \
authoritative 5 bool, error 6 int32, message 7 string, proxy_through_service_url 8 bool
ConsumerStats: request_id 1 uint64, consumer_id 4 uint64
ConsumerStatsResponse: request_id 1 uint64, error_code 2 int32, error_message 3 string, msgRateOut 4 double, \
msgThroughputOut 5 double, msgRateRedeliver 6 double, consumerName 7 string, availablePermits 8 uint64, \
unackedMessages 9 uint64, blockedConsumerOnUnackedMsgs 10 bool, address 11 string, connectedSince 12 string, type 13 string, \
msgRateExpired 14 double, msgBacklog 15 uint64, messageAckRate 16 double
GetLastMessageId: consumer_id 1 uint64, request_id 2 uint64
GetLastMessageIdResponse: last_message_id 1 MessageIdData, request_id 2 uint64, consumer_mark_delete_position 3 MessageIdData
GetTopics: request_id 1 uint64, namespace 2 string, mode 3 int32, topics_pattern 4 string, topics_hash 5 string, \
properties 6 *KeyValue
GetTopicsResponse: request_id 1 uint64, topics 2 *string, filtered 3 bool, topics_hash 4 string, changed 5 bool
GetSchema: request_id 1 uint64, topic 2 string, schema_version 3 bytes
GetSchemaResponse: request_id 1 uint64, error_code 2 int32, error_message 3 string, schema 4 Schema, schema_version 5 bytes
GetOrCreateSchema: request_id 1 uint64, topic 2 string, schema 3 Schema
GetOrCreateSchemaResponse: request_id 1 uint64, error_code 2 int32, error_message 3 string, schema_version 4 bytes
NewTxn: request_id 1 uint64, txn_ttl_seconds 2 uint64, tc_id 3 uint64
TxnResponse: {_TXN_RESPONSE}
AddPartitionToTxn: request_id 1 uint64, {_TXN}, partitions 4 *string
Subscription: topic 1 string, subscription 2 string
AddSubscriptionToTxn: request_id 1 uint64, {_TXN}, subscription 4 *Subscription
EndTxn: request_id 1 uint64, {_TXN}, txn_action 4 int32
TcClientConnect: request_id 1 uint64, tc_id 2 uint64
TcClientConnectResponse: request_id 1 uint64, error 2 int32, message 3 string
WatchTopicList: request_id 1 uint64, watcher_id 2 uint64, namespace 3 string, topics_pattern 4 string, topics_hash 5 string
WatchTopicListSuccess: request_id 1 uint64, watcher_id 2 uint64, topic 3 *string, topics_hash 4 string
WatchTopicUpdate: watcher_id 1 uint64, new_topics 2 *string, deleted_topics 3 *string, topics_hash 4 string
WatchTopicListClose: request_id 1 uint64, watcher_id 2 uint64
"""

_NAMES = {
    Kind.CONNECT: "Connect", Kind.CONNECTED: "Connected", Kind.SUBSCRIBE: "Subscribe", Kind.PRODUCER: "Producer",
    Kind.SEND: "Send", Kind.SEND_RECEIPT: "SendReceipt", Kind.SEND_ERROR: "SendError", Kind.MESSAGE: "Delivery",
    Kind.ACK: "Ack", Kind.FLOW: "Flow", Kind.UNSUBSCRIBE: "Unsubscribe", Kind.SUCCESS: "Success", Kind.ERROR: "Error",
    Kind.CLOSE_PRODUCER: "CloseProducer", Kind.CLOSE_CONSUMER: "CloseConsumer",
    Kind.PRODUCER_SUCCESS: "ProducerSuccess", Kind.PING: "Empty", Kind.PONG: "Empty", Kind.REDELIVER: "Redeliver",
    Kind.PARTITIONED_METADATA: "PartitionedMetadata",
    Kind.PARTITIONED_METADATA_RESPONSE: "PartitionedMetadataResponse", Kind.LOOKUP: "Lookup",
    Kind.LOOKUP_RESPONSE: "LookupResponse", Kind.CONSUMER_STATS: "ConsumerStats",
    Kind.CONSUMER_STATS_RESPONSE: "ConsumerStatsResponse", Kind.REACHED_END_OF_TOPIC: "ReachedEndOfTopic",
    Kind.SEEK: "Seek", Kind.GET_LAST_MESSAGE_ID: "GetLastMessageId",
    Kind.GET_LAST_MESSAGE_ID_RESPONSE: "GetLastMessageIdResponse",
    Kind.ACTIVE_CONSUMER_CHANGE: "ActiveConsumerChange", Kind.GET_TOPICS: "GetTopics",
    Kind.GET_TOPICS_RESPONSE: "GetTopicsResponse", Kind.GET_SCHEMA: "GetSchema",
    Kind.GET_SCHEMA_RESPONSE: "GetSchemaResponse", Kind.AUTH_CHALLENGE: "AuthChallenge",
    Kind.AUTH_RESPONSE: "AuthResponse", Kind.ACK_RESPONSE: "AckResponse",
    Kind.GET_OR_CREATE_SCHEMA: "GetOrCreateSchema", Kind.GET_OR_CREATE_SCHEMA_RESPONSE: "GetOrCreateSchemaResponse",
    Kind.NEW_TXN: "NewTxn", Kind.NEW_TXN_RESPONSE: "TxnResponse", Kind.ADD_PARTITION_TO_TXN: "AddPartitionToTxn",
    Kind.ADD_PARTITION_TO_TXN_RESPONSE: "TxnResponse", Kind.ADD_SUBSCRIPTION_TO_TXN: "AddSubscriptionToTxn",
    Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: "TxnResponse", Kind.END_TXN: "EndTxn",
    Kind.END_TXN_RESPONSE: "TxnResponse", Kind.TC_CLIENT_CONNECT: "TcClientConnect",
    Kind.TC_CLIENT_CONNECT_RESPONSE: "TcClientConnectResponse", Kind.WATCH_TOPIC_LIST: "WatchTopicList",
    Kind.WATCH_TOPIC_LIST_SUCCESS: "WatchTopicListSuccess", Kind.WATCH_TOPIC_UPDATE: "WatchTopicUpdate",
    Kind.WATCH_TOPIC_LIST_CLOSE: "WatchTopicListClose",
}  # fmt: skip
FIELDS = {int(kind): kind.name.lower() for kind in Kind}
"""The field of `BaseCommand` that a type uses."""
_BASE = "BaseCommand: type 1 int32, " + ", ".join(f"{FIELDS[kind]} {int(kind)} {name}" for kind, name in _NAMES.items())

MESSAGES = message_classes(PACKAGE, _TABLE + _BASE)
BASE = MESSAGES["BaseCommand"]
METADATA = MESSAGES["MessageMetadata"]
SINGLE = MESSAGES["SingleMessageMetadata"]
ID = MESSAGES["MessageIdData"]


def decode(kind: type[Any], data: bytes | memoryview) -> Any:
    """A message of this class. Raises MalformedFrame."""
    message = kind()
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"{kind.__name__} cannot be read: {error}") from None
    return message


def command(kind: Kind, **fields: Any) -> Message:
    """A command of this type with these fields."""
    return BASE(type=int(kind), **{FIELDS[kind]: MESSAGES[_NAMES[kind]](**fields)})
