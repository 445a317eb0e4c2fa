"""Refusals of topics in levels."""

from __future__ import annotations

from mainstem.model.errors import PeerError


class InvalidTopicLevels(PeerError):
    """No name of a topic in levels."""


class InvalidFilter(PeerError):
    """No filter of topics."""


class InvalidTopicRule(PeerError):
    """A rule that cannot be kept."""


class TooManySessions(PeerError):
    """There are as many sessions, or subscriptions of a session, as may be."""


class RetainedFull(PeerError):
    """There are as many retained messages, or bytes of them, as may be."""
