"""Configuration, quotas and client metrics."""

from mainstem.wire.kafka.schema import Api

DESCRIBE_CONFIGS = Api(
    key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    flexible_from=4,
    request="""
        resources: []DescribeConfigsResource
            resource_type: int8
            resource_name: string
            configuration_keys: []string?
        include_synonyms: bool
        include_documentation: bool 3+
    """,
    response="""
        throttle_time_ms: int32
        results: []DescribeConfigsResult
            error_code: int16
            error_message: string?
            resource_type: int8
            resource_name: string
            configs: []DescribeConfigsResourceResult
                name: string
                value: string?
                read_only: bool
                config_source: int8 default=-1
                is_sensitive: bool
                synonyms: []DescribeConfigsSynonym
                    name: string
                    value: string?
                    source: int8
                config_type: int8 3+
                documentation: string? 3+
    """,
)

ALTER_CONFIGS = Api(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    flexible_from=2,
    request="""
        resources: []AlterConfigsResource
            resource_type: int8
            resource_name: string
            configs: []AlterableConfig
                name: string
                value: string?
        validate_only: bool
    """,
    response="""
        throttle_time_ms: int32
        responses: []AlterConfigsResourceResponse
            error_code: int16
            error_message: string?
            resource_type: int8
            resource_name: string
    """,
)

INCREMENTAL_ALTER_CONFIGS = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    flexible_from=1,
    request="""
        resources: []AlterConfigsResource
            resource_type: int8
            resource_name: string
            configs: []AlterableConfig
                name: string
                config_operation: int8
                value: string?
        validate_only: bool
    """,
    response="""
        throttle_time_ms: int32
        responses: []AlterConfigsResourceResponse
            error_code: int16
            error_message: string?
            resource_type: int8
            resource_name: string
    """,
)

LIST_CONFIG_RESOURCES = Api(
    key=74,
    name="ListConfigResources",
    versions=(0, 1),
    flexible_from=0,
    request="""
        resource_types: []int8 1+
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        config_resources: []ConfigResource
            resource_name: string
            resource_type: int8 1+ default=16
    """,
)

DESCRIBE_CLIENT_QUOTAS = Api(
    key=48,
    name="DescribeClientQuotas",
    versions=(0, 1),
    flexible_from=1,
    request="""
        components: []ComponentData
            entity_type: string
            match_type: int8
            match: string?
        strict: bool
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
        entries: []EntryData?
            entity: []EntityData
                entity_type: string
                entity_name: string?
            values: []ValueData
                key: string
                value: float64
    """,
)

ALTER_CLIENT_QUOTAS = Api(
    key=49,
    name="AlterClientQuotas",
    versions=(0, 1),
    flexible_from=1,
    request="""
        entries: []EntryData
            entity: []EntityData
                entity_type: string
                entity_name: string?
            ops: []OpData
                key: string
                value: float64
                remove: bool
        validate_only: bool
    """,
    response="""
        throttle_time_ms: int32
        entries: []EntryData
            error_code: int16
            error_message: string?
            entity: []EntityData
                entity_type: string
                entity_name: string?
    """,
)

GET_TELEMETRY_SUBSCRIPTIONS = Api(
    key=71,
    name="GetTelemetrySubscriptions",
    versions=(0, 0),
    flexible_from=0,
    request="""
        client_instance_id: uuid
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        client_instance_id: uuid
        subscription_id: int32
        accepted_compression_types: []int8
        push_interval_ms: int32
        telemetry_max_bytes: int32
        delta_temporality: bool
        requested_metrics: []string
    """,
)

PUSH_TELEMETRY = Api(
    key=72,
    name="PushTelemetry",
    versions=(0, 0),
    flexible_from=0,
    request="""
        client_instance_id: uuid
        subscription_id: int32
        terminating: bool
        compression_type: int8
        metrics: bytes
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
    """,
)

APIS = (
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    DESCRIBE_CLIENT_QUOTAS,
    ALTER_CLIENT_QUOTAS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
)
