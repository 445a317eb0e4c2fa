"""The states of a connection, and which may follow which.

state      what it means                                     goes on to
GREETING   the protocol header is awaited                    STARTING, ENDED
STARTING   who is it? (connection.start was sent)            TUNING, ENDED
TUNING     which sizes? (connection.tune was sent)           OPENING, ENDED
OPENING    which virtual host?                               RUNNING, ENDED
RUNNING    channels are open or can be                       CLOSING, ENDED
CLOSING    no more input; what is in flight is finished      ENDED
ENDED      nothing follows
"""

from __future__ import annotations

import enum


class AmqpState(enum.Enum):
    """See the module's table."""

    GREETING = "greeting"
    STARTING = "starting"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    ENDED = "ended"


TRANSITIONS: dict[AmqpState, frozenset[AmqpState]] = {
    AmqpState.GREETING: frozenset({AmqpState.STARTING, AmqpState.ENDED}),
    AmqpState.STARTING: frozenset({AmqpState.TUNING, AmqpState.ENDED}),
    AmqpState.TUNING: frozenset({AmqpState.OPENING, AmqpState.ENDED}),
    AmqpState.OPENING: frozenset({AmqpState.RUNNING, AmqpState.ENDED}),
    AmqpState.RUNNING: frozenset({AmqpState.CLOSING, AmqpState.ENDED}),
    AmqpState.CLOSING: frozenset({AmqpState.ENDED}),
    AmqpState.ENDED: frozenset(),
}
