"""Kills a real broker under load from AMQP clients, again and again."""
