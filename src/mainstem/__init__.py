"""Mainstem: one durable log that every message-queue client already speaks to."""

from mainstem import compiled

compiled.use_compiled()
