"""Queues, their messages, and schedules."""
