"""The state machine of one AMQP connection."""

from mainstem.protocols.amqp.session.machine import AmqpSession, State
from mainstem.protocols.amqp.session.ports import Channel, Connection, LoginRefused
from mainstem.protocols.amqp.session.settings import AmqpSettings

__all__ = ["AmqpSession", "AmqpSettings", "Channel", "Connection", "LoginRefused", "State"]
