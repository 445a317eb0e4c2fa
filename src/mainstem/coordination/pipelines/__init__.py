"""Deployed pipelines and their reports."""
