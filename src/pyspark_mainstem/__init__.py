"""Spark looks for packages of this name: with it installed, `format("mainstem")` needs no registration."""

from mainstem.pipelines.data_source import DefaultSource

__all__ = ["DefaultSource"]
