"""What operators may set of the Kafka port."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainstem.model.bounds import NotNegative, Positive


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What Kafka clients may do and cost."""

    user: str | None = None
    """Who may connect, by SASL PLAIN or SCRAM. None: anybody."""
    password_file: str | None = None
    """File that holds the password of the user, so that it is in no command line and no listing."""
    anybody_from_anywhere: bool = False
    """Listen beyond this machine even without a user."""
    delegation_key_file: str | None = None
    """File with the key from which delegation tokens are made, which nobody else can read. None: there are no such tokens."""
    delegation_token_expiry_ms: Positive = 86_400_000
    """How long a delegation token holds, unless it is renewed."""
    delegation_token_max_lifetime_ms: Positive = 604_800_000
    """How long it can be renewed."""
    request_bytes_max: Positive = 104_857_600
    """Largest request; a connection that announces more is closed."""
    requests_in_flight_max: Positive = 1_000
    """Produce requests of one connection that may wait for the disk."""
    request_bytes_in_flight_max: Positive = 64 << 20
    """Bytes of them; above either limit the connection is not read."""
    fetch_bytes_max: Positive = 57_671_680
    """Most that one fetch answers, whatever the client asks for (one batch is always given whole)."""
    auto_create_topics: bool = True
    """Whether a topic that a client asks for by name is created."""
    partitions_default: Positive = 1
    """Partitions of a topic that does not say how many."""
    group_members_max: Positive = 10_000
    """Members of one group."""
    group_session_timeout_ms_min: Positive = 6_000
    """Shortest session that a member may ask for."""
    group_session_timeout_ms_max: Positive = 1_800_000
    """Longest session that a member may ask for."""
    group_initial_delay_ms: NotNegative = 3_000
    """How long the first generation of a group waits for further members; each of them prolongs it."""
    consumer_group_session_timeout_ms: Positive = 45_000
    """With the newer protocol (KIP-848): after so long without a heartbeat a member is dropped."""
    consumer_group_heartbeat_interval_ms: Positive = 5_000
    """With the newer protocol: how often members are asked to show that they live."""
    consumer_group_migration: Literal["bidirectional", "upgrade", "downgrade", "disabled"] = "bidirectional"
    """In which direction a group with members may change between the classic and the newer protocol."""
    share_group_members_max: Positive = 200
    """Members of one share group."""
    share_group_session_timeout_ms: Positive = 45_000
    """After so long without a heartbeat a member of a share group is dropped."""
    share_group_heartbeat_interval_ms: Positive = 5_000
    """How often members of a share group are asked to show that they live."""
    share_group_record_lock_duration_ms: Positive = 30_000
    """How long a member of a share group has a record; a group may set its own."""
    share_group_delivery_count_limit: Positive = 5
    """How often a record is given out; a group may set its own."""
    share_group_partition_record_locks_max: Positive = 2_000
    """How many records of a partition a share group holds at a time; a group may set its own."""
    streams_group_members_max: Positive = 10_000
    """Members of one streams group (KIP-1071)."""
    streams_group_session_timeout_ms: Positive = 45_000
    """A member of a streams group is dropped after this time without a heartbeat; a group may set its own."""
    streams_group_heartbeat_interval_ms: Positive = 5_000
    """How often members of a streams group are asked to show that they live; a group may set its own."""
    streams_group_standby_replicas: NotNegative = 0
    """In how many further processes the state of a task is kept; a group may set its own."""
    streams_group_initial_delay_ms: NotNegative = 3_000
    """How long the first assignment of a streams group waits for further members; a group may set its own."""
    streams_group_assignment_interval_ms: NotNegative = 1_000
    """Shortest time between two assignments of a streams group; a group may set its own."""
    dead_letter_topic_prefix: str = "dlq."
    """What the name of a topic begins with that may get the dead letters of share groups; empty: anything."""
    dead_letter_topics_create: bool = False
    """Whether such a topic is created when it is missing."""
    offsets_retention_ms: Positive = 604_800_000
    """How long the offsets of a group without members are kept."""
    offset_metadata_bytes_max: NotNegative = 4_096
    """Text that a client may store with an offset."""
