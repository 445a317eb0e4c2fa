"""Devices: topics in levels over the log, sessions that outlive connections, retained messages, wills."""

from mainstem.broker.devices.devices import Devices
from mainstem.broker.devices.limits import DeviceLimits
from mainstem.broker.devices.messages import DeviceMessage, Publication
from mainstem.broker.devices.sessions import DeviceSession, Receiver
from mainstem.broker.devices.space import DeviceSpace
from mainstem.coordination.devices.entries import NEVER, SubscriptionEntry, WillEntry
from mainstem.coordination.devices.errors import (
    InvalidFilter,
    InvalidTopicLevels,
    InvalidTopicRule,
    RetainedFull,
    TooManySessions,
)
from mainstem.coordination.devices.topic_filters import check_filter, check_name
from mainstem.coordination.devices.topic_rules import DEFAULT_RULES, TopicRule

__all__ = [
    "DEFAULT_RULES",
    "NEVER",
    "DeviceLimits",
    "DeviceMessage",
    "DeviceSession",
    "DeviceSpace",
    "Devices",
    "InvalidFilter",
    "InvalidTopicLevels",
    "InvalidTopicRule",
    "Publication",
    "Receiver",
    "RetainedFull",
    "SubscriptionEntry",
    "TooManySessions",
    "TopicRule",
    "WillEntry",
    "check_filter",
    "check_name",
]
