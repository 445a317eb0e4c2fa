"""Bytes and values. The hottest messages by hand; all others follow the tables of `mainstem.wire.kafka`."""
