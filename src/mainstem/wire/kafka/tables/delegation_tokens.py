"""Delegation tokens."""

from mainstem.wire.kafka.schema import Api

CREATE_DELEGATION_TOKEN = Api(
    key=38,
    name="CreateDelegationToken",
    versions=(1, 3),
    flexible_from=2,
    request="""
        owner_principal_type: string? 3+
        owner_principal_name: string? 3+
        renewers: []CreatableRenewers
            principal_type: string
            principal_name: string
        max_lifetime_ms: int64
    """,
    response="""
        error_code: int16
        principal_type: string
        principal_name: string
        token_requester_principal_type: string 3+
        token_requester_principal_name: string 3+
        issue_timestamp_ms: int64
        expiry_timestamp_ms: int64
        max_timestamp_ms: int64
        token_id: string
        hmac: bytes
        throttle_time_ms: int32
    """,
)

RENEW_DELEGATION_TOKEN = Api(
    key=39,
    name="RenewDelegationToken",
    versions=(1, 2),
    flexible_from=2,
    request="""
        hmac: bytes
        renew_period_ms: int64
    """,
    response="""
        error_code: int16
        expiry_timestamp_ms: int64
        throttle_time_ms: int32
    """,
)

EXPIRE_DELEGATION_TOKEN = Api(
    key=40,
    name="ExpireDelegationToken",
    versions=(1, 2),
    flexible_from=2,
    request="""
        hmac: bytes
        expiry_time_period_ms: int64
    """,
    response="""
        error_code: int16
        expiry_timestamp_ms: int64
        throttle_time_ms: int32
    """,
)

DESCRIBE_DELEGATION_TOKEN = Api(
    key=41,
    name="DescribeDelegationToken",
    versions=(1, 3),
    flexible_from=2,
    request="""
        owners: []DescribeDelegationTokenOwner?
            principal_type: string
            principal_name: string
    """,
    response="""
        error_code: int16
        tokens: []DescribedDelegationToken
            principal_type: string
            principal_name: string
            token_requester_principal_type: string 3+
            token_requester_principal_name: string 3+
            issue_timestamp: int64
            expiry_timestamp: int64
            max_timestamp: int64
            token_id: string
            hmac: bytes
            renewers: []DescribedDelegationTokenRenewer
                principal_type: string
                principal_name: string
        throttle_time_ms: int32
    """,
)

APIS = (
    CREATE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
)
