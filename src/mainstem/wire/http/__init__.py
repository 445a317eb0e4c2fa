"""HTTP/1.1 as every adapter that speaks it needs it: messages, limits, and the state machine of a connection."""
