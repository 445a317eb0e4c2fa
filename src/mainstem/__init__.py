"""Mainstem: one durable log that every message-queue client already speaks to."""
