"""Idempotent and transactional producers."""

from mainstem.wire.kafka.schema import Api

INIT_PRODUCER_ID = Api(
    key=22,
    name="InitProducerId",
    versions=(0, 6),
    flexible_from=2,
    unstable_from=6,
    request="""
        transactional_id: string?
        transaction_timeout_ms: int32
        producer_id: int64 3+ default=-1
        producer_epoch: int16 3+ default=-1
        enable2_pc: bool 6+
        keep_prepared_txn: bool 6+
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        producer_id: int64 default=-1
        producer_epoch: int16
        ongoing_txn_producer_id: int64 6+ default=-1
        ongoing_txn_producer_epoch: int16 6+ default=-1
    """,
)

ADD_PARTITIONS_TO_TXN = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=(0, 5),
    flexible_from=3,
    request="""
        transactions: []AddPartitionsToTxnTransaction 4+
            transactional_id: string
            producer_id: int64
            producer_epoch: int16
            verify_only: bool
            topics: []AddPartitionsToTxnTopic
                name: string
                partitions: []int32
        v3_and_below_transactional_id: string 0-3
        v3_and_below_producer_id: int64 0-3
        v3_and_below_producer_epoch: int16 0-3
        v3_and_below_topics: []AddPartitionsToTxnTopic 0-3
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16 4+
        results_by_transaction: []AddPartitionsToTxnResult 4+
            transactional_id: string
            topic_results: []AddPartitionsToTxnTopicResult
                name: string
                results_by_partition: []AddPartitionsToTxnPartitionResult
                    partition_index: int32
                    partition_error_code: int16
        results_by_topic_v3_and_below: []AddPartitionsToTxnTopicResult 0-3
    """,
)

ADD_OFFSETS_TO_TXN = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions=(0, 4),
    flexible_from=3,
    request="""
        transactional_id: string
        producer_id: int64
        producer_epoch: int16
        group_id: string
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
    """,
)

END_TXN = Api(
    key=26,
    name="EndTxn",
    versions=(0, 5),
    flexible_from=3,
    request="""
        transactional_id: string
        producer_id: int64
        producer_epoch: int16
        committed: bool
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        producer_id: int64 5+ default=-1
        producer_epoch: int16 5+ default=-1
    """,
)

WRITE_TXN_MARKERS = Api(
    key=27,
    name="WriteTxnMarkers",
    versions=(1, 2),
    flexible_from=1,
    request="""
        markers: []WritableTxnMarker
            producer_id: int64
            producer_epoch: int16
            transaction_result: bool
            topics: []WritableTxnMarkerTopic
                name: string
                partition_indexes: []int32
            coordinator_epoch: int32
            transaction_version: int8 2+
    """,
    response="""
        markers: []WritableTxnMarkerResult
            producer_id: int64
            topics: []WritableTxnMarkerTopicResult
                name: string
                partitions: []WritableTxnMarkerPartitionResult
                    partition_index: int32
                    error_code: int16
    """,
)

TXN_OFFSET_COMMIT = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=(0, 5),
    flexible_from=3,
    request="""
        transactional_id: string
        group_id: string
        producer_id: int64
        producer_epoch: int16
        generation_id: int32 3+ default=-1
        member_id: string 3+
        group_instance_id: string? 3+ default=null
        topics: []TxnOffsetCommitRequestTopic
            name: string
            partitions: []TxnOffsetCommitRequestPartition
                partition_index: int32
                committed_offset: int64
                committed_leader_epoch: int32 2+ default=-1
                committed_metadata: string?
    """,
    response="""
        throttle_time_ms: int32
        topics: []TxnOffsetCommitResponseTopic
            name: string
            partitions: []TxnOffsetCommitResponsePartition
                partition_index: int32
                error_code: int16
    """,
)

DESCRIBE_PRODUCERS = Api(
    key=61,
    name="DescribeProducers",
    versions=(0, 0),
    flexible_from=0,
    request="""
        topics: []TopicRequest
            name: string
            partition_indexes: []int32
    """,
    response="""
        throttle_time_ms: int32
        topics: []TopicResponse
            name: string
            partitions: []PartitionResponse
                partition_index: int32
                error_code: int16
                error_message: string? default=null
                active_producers: []ProducerState
                    producer_id: int64
                    producer_epoch: int32
                    last_sequence: int32 default=-1
                    last_timestamp: int64 default=-1
                    coordinator_epoch: int32
                    current_txn_start_offset: int64 default=-1
    """,
)

DESCRIBE_TRANSACTIONS = Api(
    key=65,
    name="DescribeTransactions",
    versions=(0, 0),
    flexible_from=0,
    request="""
        transactional_ids: []string
    """,
    response="""
        throttle_time_ms: int32
        transaction_states: []TransactionState
            error_code: int16
            transactional_id: string
            transaction_state: string
            transaction_timeout_ms: int32
            transaction_start_time_ms: int64
            producer_id: int64
            producer_epoch: int16
            topics: []TopicData
                topic: string
                partitions: []int32
    """,
)

LIST_TRANSACTIONS = Api(
    key=66,
    name="ListTransactions",
    versions=(0, 2),
    flexible_from=0,
    request="""
        state_filters: []string
        producer_id_filters: []int64
        duration_filter: int64 1+ default=-1
        transactional_id_pattern: string? 2+ default=null
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        unknown_state_filters: []string
        transaction_states: []TransactionState
            transactional_id: string
            producer_id: int64
            transaction_state: string
    """,
)

APIS = (
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
