"""The state machine of one AMQP connection."""

from mainstem.protocols.amqp.session.machine import AmqpSession
from mainstem.protocols.amqp.session.ports import ConnectionPort, SessionChannel
from mainstem.protocols.amqp.session.settings import AmqpSettings
from mainstem.protocols.amqp.session.state import AmqpState

__all__ = ["AmqpSession", "AmqpSettings", "AmqpState", "ConnectionPort", "SessionChannel"]
