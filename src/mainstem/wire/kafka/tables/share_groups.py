"""Share groups (KIP-932): queue reading."""

from mainstem.wire.kafka.schema import Api

SHARE_GROUP_HEARTBEAT = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions=(1, 1),
    flexible_from=1,
    request="""
        group_id: string
        member_id: string
        member_epoch: int32
        rack_id: string? default=null
        subscribed_topic_names: []string? default=null
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        member_id: string? default=null
        member_epoch: int32
        heartbeat_interval_ms: int32
        assignment: Assignment? default=null
            topic_partitions: []TopicPartitions
                topic_id: uuid
                partitions: []int32
    """,
)

SHARE_GROUP_DESCRIBE = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    flexible_from=1,
    request="""
        group_ids: []string
        include_authorized_operations: bool
    """,
    response="""
        throttle_time_ms: int32
        groups: []DescribedGroup
            error_code: int16
            error_message: string? default=null
            group_id: string
            group_state: string
            group_epoch: int32
            assignment_epoch: int32
            assignor_name: string
            members: []Member
                member_id: string
                rack_id: string? default=null
                member_epoch: int32
                client_id: string
                client_host: string
                subscribed_topic_names: []string
                assignment: Assignment
                    topic_partitions: []TopicPartitions
                        topic_id: uuid
                        topic_name: string
                        partitions: []int32
            authorized_operations: int32 default=-2147483648
    """,
)

SHARE_FETCH = Api(
    key=78,
    name="ShareFetch",
    versions=(1, 2),
    flexible_from=1,
    request="""
        group_id: string? default=null
        member_id: string?
        share_session_epoch: int32
        max_wait_ms: int32
        min_bytes: int32
        max_bytes: int32 default=2147483647
        max_records: int32
        batch_size: int32
        share_acquire_mode: int8 2+
        is_renew_ack: bool 2+
        topics: []FetchTopic
            topic_id: uuid
            partitions: []FetchPartition
                partition_index: int32
                acknowledgement_batches: []AcknowledgementBatch
                    first_offset: int64
                    last_offset: int64
                    acknowledge_types: []int8
        forgotten_topics_data: []ForgottenTopic
            topic_id: uuid
            partitions: []int32
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        acquisition_lock_timeout_ms: int32
        responses: []ShareFetchableTopicResponse
            topic_id: uuid
            partitions: []PartitionData
                partition_index: int32
                error_code: int16
                error_message: string? default=null
                acknowledge_error_code: int16
                acknowledge_error_message: string? default=null
                current_leader: LeaderIdAndEpoch
                    leader_id: int32
                    leader_epoch: int32
                records: records
                acquired_records: []AcquiredRecords
                    first_offset: int64
                    last_offset: int64
                    delivery_count: int16
        node_endpoints: []NodeEndpoint
            node_id: int32
            host: string
            port: int32
            rack: string? default=null
    """,
)

SHARE_ACKNOWLEDGE = Api(
    key=79,
    name="ShareAcknowledge",
    versions=(1, 2),
    flexible_from=1,
    request="""
        group_id: string? default=null
        member_id: string?
        share_session_epoch: int32
        is_renew_ack: bool 2+
        topics: []AcknowledgeTopic
            topic_id: uuid
            partitions: []AcknowledgePartition
                partition_index: int32
                acknowledgement_batches: []AcknowledgementBatch
                    first_offset: int64
                    last_offset: int64
                    acknowledge_types: []int8
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        acquisition_lock_timeout_ms: int32 2+
        responses: []ShareAcknowledgeTopicResponse
            topic_id: uuid
            partitions: []PartitionData
                partition_index: int32
                error_code: int16
                error_message: string? default=null
                current_leader: LeaderIdAndEpoch
                    leader_id: int32
                    leader_epoch: int32
        node_endpoints: []NodeEndpoint
            node_id: int32
            host: string
            port: int32
            rack: string? default=null
    """,
)

DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=(0, 1),
    flexible_from=0,
    request="""
        groups: []DescribeShareGroupOffsetsRequestGroup
            group_id: string
            topics: []DescribeShareGroupOffsetsRequestTopic? default=null
                topic_name: string
                partitions: []int32
    """,
    response="""
        throttle_time_ms: int32
        groups: []DescribeShareGroupOffsetsResponseGroup
            group_id: string
            topics: []DescribeShareGroupOffsetsResponseTopic
                topic_name: string
                topic_id: uuid
                partitions: []DescribeShareGroupOffsetsResponsePartition
                    partition_index: int32
                    start_offset: int64
                    leader_epoch: int32
                    lag: int64 1+ default=-1
                    error_code: int16
                    error_message: string? default=null
            error_code: int16
            error_message: string? default=null
    """,
)

ALTER_SHARE_GROUP_OFFSETS = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions=(0, 0),
    flexible_from=0,
    request="""
        group_id: string
        topics: []AlterShareGroupOffsetsRequestTopic
            topic_name: string
            partitions: []AlterShareGroupOffsetsRequestPartition
                partition_index: int32
                start_offset: int64
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        responses: []AlterShareGroupOffsetsResponseTopic
            topic_name: string
            topic_id: uuid
            partitions: []AlterShareGroupOffsetsResponsePartition
                partition_index: int32
                error_code: int16
                error_message: string? default=null
    """,
)

DELETE_SHARE_GROUP_OFFSETS = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=(0, 0),
    flexible_from=0,
    request="""
        group_id: string
        topics: []DeleteShareGroupOffsetsRequestTopic
            topic_name: string
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        responses: []DeleteShareGroupOffsetsResponseTopic
            topic_name: string
            topic_id: uuid
            error_code: int16
            error_message: string? default=null
    """,
)

APIS = (
    SHARE_GROUP_HEARTBEAT,
    SHARE_GROUP_DESCRIBE,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
)
