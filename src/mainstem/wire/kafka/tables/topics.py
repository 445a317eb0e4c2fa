"""Topics and the placing of their partitions."""

from mainstem.wire.kafka.schema import Api

CREATE_TOPICS = Api(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    flexible_from=5,
    request="""
        topics: []CreatableTopic
            name: string
            num_partitions: int32
            replication_factor: int16
            assignments: []CreatableReplicaAssignment
                partition_index: int32
                broker_ids: []int32
            configs: []CreatableTopicConfig
                name: string
                value: string?
        timeout_ms: int32 default=60000
        validate_only: bool
    """,
    response="""
        throttle_time_ms: int32
        topics: []CreatableTopicResult
            name: string
            topic_id: uuid 7+
            error_code: int16
            error_message: string?
            topic_config_error_code: int16 5+ tag=0
            num_partitions: int32 5+ default=-1
            replication_factor: int16 5+ default=-1
            configs: []CreatableTopicConfigs? 5+
                name: string
                value: string?
                read_only: bool
                config_source: int8 default=-1
                is_sensitive: bool
    """,
)

DELETE_TOPICS = Api(
    key=20,
    name="DeleteTopics",
    versions=(1, 6),
    flexible_from=4,
    request="""
        topics: []DeleteTopicState 6+
            name: string? default=null
            topic_id: uuid
        topic_names: []string 1-5
        timeout_ms: int32
    """,
    response="""
        throttle_time_ms: int32
        responses: []DeletableTopicResult
            name: string?6+
            topic_id: uuid 6+
            error_code: int16
            error_message: string? 5+ default=null
    """,
)

CREATE_PARTITIONS = Api(
    key=37,
    name="CreatePartitions",
    versions=(0, 3),
    flexible_from=2,
    request="""
        topics: []CreatePartitionsTopic
            name: string
            count: int32
            assignments: []CreatePartitionsAssignment?
                broker_ids: []int32
        timeout_ms: int32
        validate_only: bool
    """,
    response="""
        throttle_time_ms: int32
        results: []CreatePartitionsTopicResult
            name: string
            error_code: int16
            error_message: string? default=null
    """,
)

ELECT_LEADERS = Api(
    key=43,
    name="ElectLeaders",
    versions=(0, 2),
    flexible_from=2,
    request="""
        election_type: int8 1+
        topic_partitions: []TopicPartitions?
            topic: string
            partitions: []int32
        timeout_ms: int32 default=60000
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16 1+
        replica_election_results: []ReplicaElectionResult
            topic: string
            partition_result: []PartitionResult
                partition_id: int32
                error_code: int16
                error_message: string?
    """,
)

ALTER_PARTITION_REASSIGNMENTS = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=(0, 1),
    flexible_from=0,
    request="""
        timeout_ms: int32 default=60000
        allow_replication_factor_change: bool 1+ default=true
        topics: []ReassignableTopic
            name: string
            partitions: []ReassignablePartition
                partition_index: int32
                replicas: []int32? default=null
    """,
    response="""
        throttle_time_ms: int32
        allow_replication_factor_change: bool 1+ default=true
        error_code: int16
        error_message: string?
        responses: []ReassignableTopicResponse
            name: string
            partitions: []ReassignablePartitionResponse
                partition_index: int32
                error_code: int16
                error_message: string?
    """,
)

LIST_PARTITION_REASSIGNMENTS = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=(0, 0),
    flexible_from=0,
    request="""
        timeout_ms: int32 default=60000
        topics: []ListPartitionReassignmentsTopics? default=null
            name: string
            partition_indexes: []int32
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
        topics: []OngoingTopicReassignment
            name: string
            partitions: []OngoingPartitionReassignment
                partition_index: int32
                replicas: []int32
                adding_replicas: []int32
                removing_replicas: []int32
    """,
)

ALTER_REPLICA_LOG_DIRS = Api(
    key=34,
    name="AlterReplicaLogDirs",
    versions=(1, 2),
    flexible_from=2,
    request="""
        dirs: []AlterReplicaLogDir
            path: string
            topics: []AlterReplicaLogDirTopic
                name: string
                partitions: []int32
    """,
    response="""
        throttle_time_ms: int32
        results: []AlterReplicaLogDirTopicResult
            topic_name: string
            partitions: []AlterReplicaLogDirPartitionResult
                partition_index: int32
                error_code: int16
    """,
)

DESCRIBE_LOG_DIRS = Api(
    key=35,
    name="DescribeLogDirs",
    versions=(1, 5),
    flexible_from=2,
    request="""
        topics: []DescribableLogDirTopic?
            topic: string
            partitions: []int32
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16 3+
        results: []DescribeLogDirsResult
            error_code: int16
            log_dir: string
            topics: []DescribeLogDirsTopic
                name: string
                partitions: []DescribeLogDirsPartition
                    partition_index: int32
                    partition_size: int64
                    offset_lag: int64
                    is_future_key: bool
            total_bytes: int64 4+ default=-1
            usable_bytes: int64 4+ default=-1
            is_cordoned: bool 5+
    """,
)

APIS = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
)
