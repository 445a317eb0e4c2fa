"""Pulsar's words and ours."""
