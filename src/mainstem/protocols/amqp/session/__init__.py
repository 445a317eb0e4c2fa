"""The state machine of one AMQP connection."""

from mainstem.protocols.amqp.session.machine import AmqpSession
from mainstem.protocols.amqp.session.ports import Channel, Connection, LoginRefused
from mainstem.protocols.amqp.session.settings import AmqpSettings
from mainstem.protocols.amqp.session.state import State

__all__ = ["AmqpSession", "AmqpSettings", "Channel", "Connection", "LoginRefused", "State"]
