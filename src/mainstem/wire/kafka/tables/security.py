"""Authentication, access control, delegation tokens."""

from mainstem.wire.kafka.schema import Api

SASL_HANDSHAKE = Api(
    key=17,
    name="SaslHandshake",
    versions=(0, 1),
    flexible_from=None,
    request="""
        mechanism: string
    """,
    response="""
        error_code: int16
        mechanisms: []string
    """,
)

SASL_AUTHENTICATE = Api(
    key=36,
    name="SaslAuthenticate",
    versions=(0, 2),
    flexible_from=2,
    request="""
        auth_bytes: bytes
    """,
    response="""
        error_code: int16
        error_message: string?
        auth_bytes: bytes
        session_lifetime_ms: int64 1+
    """,
)

DESCRIBE_ACLS = Api(
    key=29,
    name="DescribeAcls",
    versions=(1, 3),
    flexible_from=2,
    request="""
        resource_type_filter: int8
        resource_name_filter: string?
        pattern_type_filter: int8 default=3
        principal_filter: string?
        host_filter: string?
        operation: int8
        permission_type: int8
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
        resources: []DescribeAclsResource
            resource_type: int8
            resource_name: string
            pattern_type: int8 default=3
            acls: []AclDescription
                principal: string
                host: string
                operation: int8
                permission_type: int8
    """,
)

CREATE_ACLS = Api(
    key=30,
    name="CreateAcls",
    versions=(1, 3),
    flexible_from=2,
    request="""
        creations: []AclCreation
            resource_type: int8
            resource_name: string
            resource_pattern_type: int8 default=3
            principal: string
            host: string
            operation: int8
            permission_type: int8
    """,
    response="""
        throttle_time_ms: int32
        results: []AclCreationResult
            error_code: int16
            error_message: string?
    """,
)

DELETE_ACLS = Api(
    key=31,
    name="DeleteAcls",
    versions=(1, 3),
    flexible_from=2,
    request="""
        filters: []DeleteAclsFilter
            resource_type_filter: int8
            resource_name_filter: string?
            pattern_type_filter: int8 default=3
            principal_filter: string?
            host_filter: string?
            operation: int8
            permission_type: int8
    """,
    response="""
        throttle_time_ms: int32
        filter_results: []DeleteAclsFilterResult
            error_code: int16
            error_message: string?
            matching_acls: []DeleteAclsMatchingAcl
                error_code: int16
                error_message: string?
                resource_type: int8
                resource_name: string
                pattern_type: int8 default=3
                principal: string
                host: string
                operation: int8
                permission_type: int8
    """,
)

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=(0, 0),
    flexible_from=0,
    request="""
        users: []UserName?
            name: string
    """,
    response="""
        throttle_time_ms: int32
        error_code: int16
        error_message: string?
        results: []DescribeUserScramCredentialsResult
            user: string
            error_code: int16
            error_message: string?
            credential_infos: []CredentialInfo
                mechanism: int8
                iterations: int32
    """,
)

ALTER_USER_SCRAM_CREDENTIALS = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=(0, 0),
    flexible_from=0,
    request="""
        deletions: []ScramCredentialDeletion
            name: string
            mechanism: int8
        upsertions: []ScramCredentialUpsertion
            name: string
            mechanism: int8
            iterations: int32
            salt: bytes
            salted_password: bytes
    """,
    response="""
        throttle_time_ms: int32
        results: []AlterUserScramCredentialsResult
            user: string
            error_code: int16
            error_message: string?
    """,
)

APIS = (
    SASL_HANDSHAKE,
    SASL_AUTHENTICATE,
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
)
