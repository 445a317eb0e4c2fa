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


class State(enum.Enum):
    """See the module's table."""

    GREETING = "greeting"
    STARTING = "starting"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    ENDED = "ended"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.GREETING: frozenset({State.STARTING, State.ENDED}),
    State.STARTING: frozenset({State.TUNING, State.ENDED}),
    State.TUNING: frozenset({State.OPENING, State.ENDED}),
    State.OPENING: frozenset({State.RUNNING, State.ENDED}),
    State.RUNNING: frozenset({State.CLOSING, State.ENDED}),
    State.CLOSING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}
