"""Pipelines that the broker brings itself: their definitions are names of functions, which a driver runs until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import SparkSession

from mainstem.pipelines.errors import PipelineError
from mainstem.pipelines.tables.running import run_tables

BuiltIn: TypeAlias = Callable[[SparkSession, str, threading.Event], None]
"""Is given the session, the address of the broker's Kafka listener, and what is set when it is to end."""

BUILT_IN: dict[str, BuiltIn] = {"tables": run_tables}


def built_in(name: str) -> BuiltIn:
    """The function of this name. Raises PipelineError."""
    found = BUILT_IN.get(name)
    if found is None:
        raise PipelineError(
            f"The broker asks for a pipeline {name!r}, which this version does not know: install the broker's."
        )
    return found
