"""What a client learns about the cluster."""

from mainstem.wire.kafka.schema import Api

METADATA = Api(
    key=3,
    name="Metadata",
    versions=(0, 13),
    flexible_from=9,
    request="""
        topics: []MetadataRequestTopic?1+
            topic_id: uuid 10+
            name: string?10+
        allow_auto_topic_creation: bool 4+ default=true
        include_cluster_authorized_operations: bool 8-10
        include_topic_authorized_operations: bool 8+
    """,
    response="""
        throttle_time_ms: int32 3+
        brokers: []MetadataResponseBroker
            node_id: int32
            host: string
            port: int32
            rack: string? 1+ default=null
        cluster_id: string? 2+ default=null
        controller_id: int32 1+ default=-1
        topics: []MetadataResponseTopic
            error_code: int16
            name: string?12+
            topic_id: uuid 10+
            is_internal: bool 1+
            partitions: []MetadataResponsePartition
                error_code: int16
                partition_index: int32
                leader_id: int32
                leader_epoch: int32 7+ default=-1
                replica_nodes: []int32
                isr_nodes: []int32
                offline_replicas: []int32 5+
            topic_authorized_operations: int32 8+ default=-2147483648
        cluster_authorized_operations: int32 8-10 default=-2147483648
        error_code: int16 13+
    """,
)

FIND_COORDINATOR = Api(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    flexible_from=3,
    request="""
        key: string 0-3
        key_type: int8 1+
        coordinator_keys: []string 4+
    """,
    response="""
        throttle_time_ms: int32 1+
        error_code: int16 0-3
        error_message: string? 1-3
        node_id: int32 0-3
        host: string 0-3
        port: int32 0-3
        coordinators: []Coordinator 4+
            key: string
            node_id: int32
            host: string
            port: int32
            error_code: int16
            error_message: string?
    """,
)

API_VERSIONS = Api(
    key=18,
    name="ApiVersions",
    versions=(0, 4),
    flexible_from=3,
    request="""
        client_software_name: string 3+
        client_software_version: string 3+
    """,
    response="""
        error_code: int16
        api_keys: []ApiVersion
            api_key: int16
            min_version: int16
            max_version: int16
        throttle_time_ms: int32 1+
        supported_features: []SupportedFeatureKey 3+ tag=0
            name: string
            min_version: int16
            max_version: int16
        finalized_features_epoch: int64 3+ tag=1 default=-1
        finalized_features: []FinalizedFeatureKey 3+ tag=2
            name: string
            max_version_level: int16
            min_version_level: int16
        zk_migration_ready: bool 3+ tag=3
    """,
)

DESCRIBE_CLUSTER = Api(
    key=60,
    name="DescribeCluster",
    versions=(0, 2),
    flexible_from=0,
    request="""
        include_cluster_authorized_operations: bool
        endpoint_type: int8 1+ default=1
        include_fenced_brokers: bool 2+
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        endpoint_type: int8 1+ default=1
        cluster_id: string
        controller_id: int32 default=-1
        brokers: []DescribeClusterBroker
            broker_id: int32
            host: string
            port: int32
            rack: string? default=null
            is_fenced: bool 2+
        cluster_authorized_operations: int32 default=-2147483648
    """,
)

DESCRIBE_TOPIC_PARTITIONS = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions=(0, 0),
    flexible_from=0,
    request="""
        topics: []TopicRequest
            name: string
        response_partition_limit: int32 default=2000
        cursor: Cursor? default=null
            topic_name: string
            partition_index: int32
    """,
    response="""
        throttle_time_ms: int32
        topics: []DescribeTopicPartitionsResponseTopic
            error_code: int16
            name: string?
            topic_id: uuid
            is_internal: bool
            partitions: []DescribeTopicPartitionsResponsePartition
                error_code: int16
                partition_index: int32
                leader_id: int32
                leader_epoch: int32 default=-1
                replica_nodes: []int32
                isr_nodes: []int32
                eligible_leader_replicas: []int32? default=null
                last_known_elr: []int32? default=null
                offline_replicas: []int32
            topic_authorized_operations: int32 default=-2147483648
        next_cursor: Cursor? default=null
            topic_name: string
            partition_index: int32
    """,
)

DESCRIBE_QUORUM = Api(
    key=55,
    name="DescribeQuorum",
    versions=(0, 2),
    flexible_from=0,
    request="""
        topics: []TopicData
            topic_name: string
            partitions: []PartitionData
                partition_index: int32
    """,
    response="""
        error_code: int16
        error_message: string? 2+
        topics: []TopicData
            topic_name: string
            partitions: []PartitionData
                partition_index: int32
                error_code: int16
                error_message: string? 2+
                leader_id: int32
                leader_epoch: int32
                high_watermark: int64
                current_voters: []ReplicaState
                    replica_id: int32
                    replica_directory_id: uuid 2+
                    log_end_offset: int64
                    last_fetch_timestamp: int64 1+ default=-1
                    last_caught_up_timestamp: int64 1+ default=-1
                observers: []ReplicaState
        nodes: []Node 2+
            node_id: int32
            listeners: []Listener
                name: string
                host: string
                port: uint16
    """,
)

UPDATE_FEATURES = Api(
    key=57,
    name="UpdateFeatures",
    versions=(0, 2),
    flexible_from=0,
    request="""
        timeout_ms: int32 default=60000
        feature_updates: []FeatureUpdateKey
            feature: string
            max_version_level: int16
            allow_downgrade: bool 0
            upgrade_type: int8 1+ default=1
        validate_only: bool 1+
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
        results: []UpdatableFeatureResult 0-1
            feature: string
            error_code: int16
            error_message: string?
    """,
)

UNREGISTER_BROKER = Api(
    key=64,
    name="UnregisterBroker",
    versions=(0, 0),
    flexible_from=0,
    request="""
        broker_id: int32
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
    """,
)

ADD_RAFT_VOTER = Api(
    key=80,
    name="AddRaftVoter",
    versions=(0, 1),
    flexible_from=0,
    request="""
        cluster_id: string?
        timeout_ms: int32
        voter_id: int32
        voter_directory_id: uuid
        listeners: []Listener
            name: string
            host: string
            port: uint16
        ack_when_committed: bool 1+ default=true
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
    """,
)

REMOVE_RAFT_VOTER = Api(
    key=81,
    name="RemoveRaftVoter",
    versions=(0, 0),
    flexible_from=0,
    request="""
        cluster_id: string?
        voter_id: int32
        voter_directory_id: uuid
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
    """,
)

APIS = (
    METADATA,
    FIND_COORDINATOR,
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
    UNREGISTER_BROKER,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
)
