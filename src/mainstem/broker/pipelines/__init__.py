"""Deployed pipelines, and those that run in the foreground."""
