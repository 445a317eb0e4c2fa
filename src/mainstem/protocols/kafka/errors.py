"""Facts and the codes that Kafka has for them."""

from __future__ import annotations

from mainstem.broker import errors as broker
from mainstem.model import errors as model
from mainstem.wire.kafka.error_codes import ErrorCode

CODES: dict[type[BaseException], ErrorCode] = {
    model.UnknownLog: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    model.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    model.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    model.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    model.MisdatedBatch: ErrorCode.INVALID_TIMESTAMP,
    model.CommitTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    model.InvalidBatch: ErrorCode.INVALID_RECORD,
    model.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    model.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    model.StaleEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    model.PeerError: ErrorCode.INVALID_REQUEST,
    # Of all that clients retry, this one says that nothing was written.
    model.Overloaded: ErrorCode.NOT_ENOUGH_REPLICAS,
    # Who owns the log now, clients ask then; nothing was written.
    model.OwnershipLost: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    model.UnavailableError: ErrorCode.KAFKA_STORAGE_ERROR,
    model.DiskError: ErrorCode.KAFKA_STORAGE_ERROR,
    broker.InvalidNamePattern: ErrorCode.INVALID_REGULAR_EXPRESSION,
    broker.InvalidQuota: ErrorCode.INVALID_REQUEST,
    broker.InvalidBrokerConfig: ErrorCode.INVALID_REQUEST,
    broker.InvalidClientMetrics: ErrorCode.INVALID_CONFIG,
    broker.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    broker.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    broker.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    broker.InvalidPartitionCount: ErrorCode.INVALID_PARTITIONS,
    broker.InvalidTopicConfig: ErrorCode.INVALID_CONFIG,
    broker.UnknownGroup: ErrorCode.GROUP_ID_NOT_FOUND,
    broker.InvalidGroupName: ErrorCode.INVALID_GROUP_ID,
    broker.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    broker.GroupInUse: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    broker.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    broker.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    broker.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    broker.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    broker.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    broker.StaleGeneration: ErrorCode.ILLEGAL_GENERATION,
    broker.RebalanceUnderWay: ErrorCode.REBALANCE_IN_PROGRESS,
    broker.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    broker.FencedMember: ErrorCode.FENCED_MEMBER_EPOCH,
    broker.StaleMember: ErrorCode.STALE_MEMBER_EPOCH,
    broker.InstanceInUse: ErrorCode.UNRELEASED_INSTANCE_ID,
    broker.UnknownAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    broker.InvalidStreamsTopology: ErrorCode.STREAMS_INVALID_TOPOLOGY,
    broker.TopologyDiffers: ErrorCode.INVALID_REQUEST,
    broker.UnknownTask: ErrorCode.INVALID_REQUEST,
    broker.OffsetNoteTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    broker.NotLeased: ErrorCode.INVALID_RECORD_STATE,
    broker.InvalidGroupConfig: ErrorCode.INVALID_CONFIG,
    broker.FencedProducer: ErrorCode.PRODUCER_FENCED,
    broker.StaleProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    broker.UnknownProducer: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    broker.UnknownTransaction: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    broker.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    broker.TransactionUnderWay: ErrorCode.CONCURRENT_TRANSACTIONS,
    broker.UnknownStage: ErrorCode.UNKNOWN_PRODUCER_ID,
    broker.StagePositionMissed: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    broker.InvalidStagedBatch: ErrorCode.INVALID_RECORD,
    broker.StageError: ErrorCode.INVALID_REQUEST,
    broker.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
}


def code_of(error: BaseException) -> ErrorCode:
    """The code of the nearest fact that has one."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
