"""Records: produce, fetch, offsets by time and epoch, deletion of a log's beginning."""

from mainstem.wire.kafka.schema import Api

PRODUCE = Api(
    key=0,
    name="Produce",
    versions=(3, 13),
    # KAFKA-18659: older librdkafka takes a missing version 0 for a broker that knows no compression
    announced_from=0,
    flexible_from=9,
    request="""
        transactional_id: string? default=null
        acks: int16
        timeout_ms: int32
        topic_data: []TopicProduceData
            name: string 3-12
            topic_id: uuid 13+
            partition_data: []PartitionProduceData
                index: int32
                records: records?
    """,
    response="""
        responses: []TopicProduceResponse
            name: string 3-12
            topic_id: uuid 13+
            partition_responses: []PartitionProduceResponse
                index: int32
                error_code: int16
                base_offset: int64
                log_append_time_ms: int64 default=-1
                log_start_offset: int64 5+ default=-1
                record_errors: []BatchIndexAndErrorMessage 8+
                    batch_index: int32
                    batch_index_error_message: string? default=null
                error_message: string? 8+ default=null
                current_leader: LeaderIdAndEpoch 10+ tag=0
                    leader_id: int32 default=-1
                    leader_epoch: int32 default=-1
        throttle_time_ms: int32
        node_endpoints: []NodeEndpoint 10+ tag=0
            node_id: int32
            host: string
            port: int32
            rack: string? default=null
    """,
)

FETCH = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    flexible_from=12,
    request="""
        cluster_id: string? 12+ tag=0 default=null
        replica_id: int32 4-14 default=-1
        replica_state: ReplicaState 15+ tag=1
            replica_id: int32 default=-1
            replica_epoch: int64 default=-1
        max_wait_ms: int32
        min_bytes: int32
        max_bytes: int32 default=2147483647
        isolation_level: int8
        session_id: int32 7+
        session_epoch: int32 7+ default=-1
        topics: []FetchTopic
            topic: string 4-12
            topic_id: uuid 13+
            partitions: []FetchPartition
                partition: int32
                current_leader_epoch: int32 9+ default=-1
                fetch_offset: int64
                last_fetched_epoch: int32 12+ default=-1
                log_start_offset: int64 5+ default=-1
                partition_max_bytes: int32
                replica_directory_id: uuid 17+ tag=0
                high_watermark: int64 18+ tag=1 default=9223372036854775807
        forgotten_topics_data: []ForgottenTopic 7+
            topic: string 7-12
            topic_id: uuid 13+
            partitions: []int32
        rack_id: string 11+
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16 7+
        session_id: int32 7+
        responses: []FetchableTopicResponse
            topic: string 4-12
            topic_id: uuid 13+
            partitions: []PartitionData
                partition_index: int32
                error_code: int16
                high_watermark: int64
                last_stable_offset: int64 default=-1
                log_start_offset: int64 5+ default=-1
                diverging_epoch: EpochEndOffset 12+ tag=0
                    epoch: int32 default=-1
                    end_offset: int64 default=-1
                current_leader: LeaderIdAndEpoch 12+ tag=1
                    leader_id: int32 default=-1
                    leader_epoch: int32 default=-1
                snapshot_id: SnapshotId 12+ tag=2
                    end_offset: int64 default=-1
                    epoch: int32 default=-1
                aborted_transactions: []AbortedTransaction?
                    producer_id: int64
                    first_offset: int64
                preferred_read_replica: int32 11+ default=-1
                records: records?
        node_endpoints: []NodeEndpoint 16+ tag=0
            node_id: int32
            host: string
            port: int32
            rack: string? default=null
    """,
)

LIST_OFFSETS = Api(
    key=2,
    name="ListOffsets",
    versions=(1, 11),
    flexible_from=6,
    request="""
        replica_id: int32
        isolation_level: int8 2+
        topics: []ListOffsetsTopic
            name: string
            partitions: []ListOffsetsPartition
                partition_index: int32
                current_leader_epoch: int32 4+ default=-1
                timestamp: int64
        timeout_ms: int32 10+
    """,
    response="""
        throttle_time_ms: int32 2+
        topics: []ListOffsetsTopicResponse
            name: string
            partitions: []ListOffsetsPartitionResponse
                partition_index: int32
                error_code: int16
                timestamp: int64 default=-1
                offset: int64 default=-1
                leader_epoch: int32 4+ default=-1
    """,
)

DELETE_RECORDS = Api(
    key=21,
    name="DeleteRecords",
    versions=(0, 2),
    flexible_from=2,
    request="""
        topics: []DeleteRecordsTopic
            name: string
            partitions: []DeleteRecordsPartition
                partition_index: int32
                offset: int64
        timeout_ms: int32
    """,
    response="""
        throttle_time_ms: int32
        topics: []DeleteRecordsTopicResult
            name: string
            partitions: []DeleteRecordsPartitionResult
                partition_index: int32
                low_watermark: int64
                error_code: int16
    """,
)

OFFSET_FOR_LEADER_EPOCH = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    flexible_from=4,
    request="""
        replica_id: int32 3+ default=-2
        topics: []OffsetForLeaderTopic
            topic: string
            partitions: []OffsetForLeaderPartition
                partition: int32
                current_leader_epoch: int32 default=-1
                leader_epoch: int32
    """,
    response="""
        throttle_time_ms: int32
        topics: []OffsetForLeaderTopicResult
            topic: string
            partitions: []EpochEndOffset
                error_code: int16
                partition: int32
                leader_epoch: int32 default=-1
                end_offset: int64 default=-1
    """,
)

APIS = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    DELETE_RECORDS,
    OFFSET_FOR_LEADER_EPOCH,
)
