"""Classic consumer groups and their offsets."""

from mainstem.wire.kafka.schema import Api

OFFSET_COMMIT = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    flexible_from=8,
    request="""
        group_id: string
        generation_id_or_member_epoch: int32 default=-1
        member_id: string
        group_instance_id: string? 7+ default=null
        retention_time_ms: int64 2-4 default=-1
        topics: []OffsetCommitRequestTopic
            name: string 2-9
            topic_id: uuid 10+
            partitions: []OffsetCommitRequestPartition
                partition_index: int32
                committed_offset: int64
                committed_leader_epoch: int32 6+ default=-1
                committed_metadata: string?
    """,
    response="""
        throttle_time_ms: int32 3+
        topics: []OffsetCommitResponseTopic
            name: string 2-9
            topic_id: uuid 10+
            partitions: []OffsetCommitResponsePartition
                partition_index: int32
                error_code: int16
    """,
)

OFFSET_FETCH = Api(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    flexible_from=6,
    request="""
        group_id: string 1-7
        topics: []OffsetFetchRequestTopic?2+ 1-7
            name: string
            partition_indexes: []int32
        groups: []OffsetFetchRequestGroup 8+
            group_id: string
            member_id: string? 9+ default=null
            member_epoch: int32 9+ default=-1
            topics: []OffsetFetchRequestTopics?
                name: string 8-9
                topic_id: uuid 10+
                partition_indexes: []int32
        require_stable: bool 7+
    """,
    response="""
        throttle_time_ms: int32 3+
        topics: []OffsetFetchResponseTopic 1-7
            name: string
            partitions: []OffsetFetchResponsePartition
                partition_index: int32
                committed_offset: int64
                committed_leader_epoch: int32 5+ default=-1
                metadata: string?
                error_code: int16
        error_code: int16 2-7
        groups: []OffsetFetchResponseGroup 8+
            group_id: string
            topics: []OffsetFetchResponseTopics
                name: string 8-9
                topic_id: uuid 10+
                partitions: []OffsetFetchResponsePartitions
                    partition_index: int32
                    committed_offset: int64
                    committed_leader_epoch: int32 default=-1
                    metadata: string?
                    error_code: int16
            error_code: int16
    """,
)

JOIN_GROUP = Api(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    flexible_from=6,
    request="""
        group_id: string
        session_timeout_ms: int32
        rebalance_timeout_ms: int32 1+ default=-1
        member_id: string
        group_instance_id: string? 5+ default=null
        protocol_type: string
        protocols: []JoinGroupRequestProtocol
            name: string
            metadata: bytes
        reason: string? 8+ default=null
    """,
    response="""
        throttle_time_ms: int32 2+
        error_code: int16
        generation_id: int32 default=-1
        protocol_type: string? 7+ default=null
        protocol_name: string?7+
        leader: string
        skip_assignment: bool 9+
        member_id: string
        members: []JoinGroupResponseMember
            member_id: string
            group_instance_id: string? 5+ default=null
            metadata: bytes
    """,
)

HEARTBEAT = Api(
    key=12,
    name="Heartbeat",
    versions=(0, 4),
    flexible_from=4,
    request="""
        group_id: string
        generation_id: int32
        member_id: string
        group_instance_id: string? 3+ default=null
    """,
    response="""
        throttle_time_ms: int32 1+
        error_code: int16
    """,
)

LEAVE_GROUP = Api(
    key=13,
    name="LeaveGroup",
    versions=(0, 5),
    flexible_from=4,
    request="""
        group_id: string
        member_id: string 0-2
        members: []MemberIdentity 3+
            member_id: string
            group_instance_id: string? default=null
            reason: string? 5+ default=null
    """,
    response="""
        throttle_time_ms: int32 1+
        error_code: int16
        members: []MemberResponse 3+
            member_id: string
            group_instance_id: string?
            error_code: int16
    """,
)

SYNC_GROUP = Api(
    key=14,
    name="SyncGroup",
    versions=(0, 5),
    flexible_from=4,
    request="""
        group_id: string
        generation_id: int32
        member_id: string
        group_instance_id: string? 3+ default=null
        protocol_type: string? 5+ default=null
        protocol_name: string? 5+ default=null
        assignments: []SyncGroupRequestAssignment
            member_id: string
            assignment: bytes
    """,
    response="""
        throttle_time_ms: int32 1+
        error_code: int16
        protocol_type: string? 5+ default=null
        protocol_name: string? 5+ default=null
        assignment: bytes
    """,
)

DESCRIBE_GROUPS = Api(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    flexible_from=5,
    request="""
        groups: []string
        include_authorized_operations: bool 3+
    """,
    response="""
        throttle_time_ms: int32 1+
        groups: []DescribedGroup
            error_code: int16
            error_message: string? 6+ default=null
            group_id: string
            group_state: string
            protocol_type: string
            protocol_data: string
            members: []DescribedGroupMember
                member_id: string
                group_instance_id: string? 4+ default=null
                client_id: string
                client_host: string
                member_metadata: bytes
                member_assignment: bytes
            authorized_operations: int32 3+ default=-2147483648
    """,
)

LIST_GROUPS = Api(
    key=16,
    name="ListGroups",
    versions=(0, 5),
    flexible_from=3,
    request="""
        states_filter: []string 4+
        types_filter: []string 5+
    """,
    response="""
        throttle_time_ms: int32 1+
        error_code: int16
        groups: []ListedGroup
            group_id: string
            protocol_type: string
            group_state: string 4+
            group_type: string 5+
    """,
)

DELETE_GROUPS = Api(
    key=42,
    name="DeleteGroups",
    versions=(0, 2),
    flexible_from=2,
    request="""
        groups_names: []string
    """,
    response="""
        throttle_time_ms: int32
        results: []DeletableGroupResult
            group_id: string
            error_code: int16
    """,
)

OFFSET_DELETE = Api(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    flexible_from=None,
    request="""
        group_id: string
        topics: []OffsetDeleteRequestTopic
            name: string
            partitions: []OffsetDeleteRequestPartition
                partition_index: int32
    """,
    response="""
        error_code: int16
        throttle_time_ms: int32
        topics: []OffsetDeleteResponseTopic
            name: string
            partitions: []OffsetDeleteResponsePartition
                partition_index: int32
                error_code: int16
    """,
)

APIS = (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    OFFSET_DELETE,
)
