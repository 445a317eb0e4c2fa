"""Groups whose members the coordinator assigns: consumers (KIP-848) and streams (KIP-1071)."""

from mainstem.wire.kafka.schema import Api

CONSUMER_GROUP_HEARTBEAT = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=(0, 1),
    flexible_from=0,
    request="""
        group_id: string
        member_id: string
        member_epoch: int32
        instance_id: string? default=null
        rack_id: string? default=null
        rebalance_timeout_ms: int32 default=-1
        subscribed_topic_names: []string? default=null
        subscribed_topic_regex: string? 1+ default=null
        server_assignor: string? default=null
        topic_partitions: []TopicPartitions? default=null
            topic_id: uuid
            partitions: []int32
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

CONSUMER_GROUP_DESCRIBE = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
    flexible_from=0,
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
                instance_id: string? default=null
                rack_id: string? default=null
                member_epoch: int32
                client_id: string
                client_host: string
                subscribed_topic_names: []string
                subscribed_topic_regex: string? default=null
                assignment: Assignment
                    topic_partitions: []TopicPartitions
                        topic_id: uuid
                        topic_name: string
                        partitions: []int32
                target_assignment: Assignment
                member_type: int8 1+ default=-1
            authorized_operations: int32 default=-2147483648
    """,
)

STREAMS_GROUP_HEARTBEAT = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    versions=(0, 0),
    flexible_from=0,
    request="""
        group_id: string
        member_id: string
        member_epoch: int32
        endpoint_information_epoch: int32
        instance_id: string? default=null
        rack_id: string? default=null
        rebalance_timeout_ms: int32 default=-1
        topology: Topology? default=null
            epoch: int32
            subtopologies: []Subtopology
                subtopology_id: string
                source_topics: []string
                source_topic_regex: []string
                state_changelog_topics: []TopicInfo
                    name: string
                    partitions: int32
                    replication_factor: int16
                    topic_configs: []KeyValue
                        key: string
                        value: string
                repartition_sink_topics: []string
                repartition_source_topics: []TopicInfo
                copartition_groups: []CopartitionGroup
                    source_topics: []int16
                    source_topic_regex: []int16
                    repartition_source_topics: []int16
        active_tasks: []TaskIds? default=null
            subtopology_id: string
            partitions: []int32
        standby_tasks: []TaskIds? default=null
        warmup_tasks: []TaskIds? default=null
        process_id: string? default=null
        user_endpoint: Endpoint? default=null
            host: string
            port: uint16
        client_tags: []KeyValue? default=null
        task_offsets: []TaskOffset? default=null
            subtopology_id: string
            partition: int32
            offset: int64
        task_end_offsets: []TaskOffset? default=null
        shutdown_application: bool
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string? default=null
        member_id: string
        member_epoch: int32
        heartbeat_interval_ms: int32
        acceptable_recovery_lag: int32
        task_offset_interval_ms: int32
        status: []Status? default=null
            status_code: int8
            status_detail: string
        active_tasks: []TaskIds? default=null
            subtopology_id: string
            partitions: []int32
        standby_tasks: []TaskIds? default=null
        warmup_tasks: []TaskIds? default=null
        endpoint_information_epoch: int32
        partitions_by_user_endpoint: []EndpointToPartitions? default=null
            user_endpoint: Endpoint
                host: string
                port: uint16
            active_partitions: []TopicPartition
                topic: string
                partitions: []int32
            standby_partitions: []TopicPartition
    """,
)

STREAMS_GROUP_DESCRIBE = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions=(0, 0),
    flexible_from=0,
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
            topology: Topology? default=null
                epoch: int32
                subtopologies: []Subtopology? default=null
                    subtopology_id: string
                    source_topics: []string
                    repartition_sink_topics: []string
                    state_changelog_topics: []TopicInfo
                        name: string
                        partitions: int32
                        replication_factor: int16
                        topic_configs: []KeyValue
                            key: string
                            value: string
                    repartition_source_topics: []TopicInfo
            members: []Member
                member_id: string
                member_epoch: int32
                instance_id: string? default=null
                rack_id: string? default=null
                client_id: string
                client_host: string
                topology_epoch: int32
                process_id: string
                user_endpoint: Endpoint? default=null
                    host: string
                    port: uint16
                client_tags: []KeyValue
                task_offsets: []TaskOffset
                    subtopology_id: string
                    partition: int32
                    offset: int64
                task_end_offsets: []TaskOffset
                assignment: Assignment
                    active_tasks: []TaskIds
                        subtopology_id: string
                        partitions: []int32
                    standby_tasks: []TaskIds
                    warmup_tasks: []TaskIds
                target_assignment: Assignment
                is_classic: bool
            authorized_operations: int32 default=-2147483648
    """,
)

APIS = (
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_DESCRIBE,
)
