"""The state machine of one connection, and its settings."""
