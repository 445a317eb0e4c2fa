"""What the broker writes to its log, changed while it runs (KIP-412). As in Kafka, a restart forgets it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mainstem.broker.errors import InvalidTopicConfig

ROOT, OURS = "root", "mainstem"
LEVELS: Mapping[str, int] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
"""Kafka's words; there is nothing below DEBUG here."""
WORDS = {level: word for word, level in LEVELS.items() if word != "TRACE"}


def describe_loggers() -> dict[str, str]:
    """By name, with the level that holds for each."""
    known = logging.root.manager.loggerDict
    ours = sorted(name for name in known if name == OURS or name.startswith(f"{OURS}."))
    return {name: _word(logging.getLogger(None if name == ROOT else name)) for name in (ROOT, *ours)}


def _word(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((word for known, word in sorted(WORDS.items(), reverse=True) if level >= known), "DEBUG")


def alter_loggers(changes: Iterable[Any], delete: int, set_: int, *, dry_run: bool) -> None:
    """All of the changes, or none. Raises InvalidTopicConfig."""
    known = describe_loggers()
    levels: dict[str, int] = {}
    for change in changes:
        if change.name not in known:
            raise InvalidTopicConfig(f"Logger {change.name} does not exist!")
        if change.config_operation == delete:
            if change.name == ROOT:
                raise InvalidTopicConfig("Removing the log level of the root logger is not allowed")
            levels[change.name] = logging.NOTSET
        elif change.config_operation == set_ and change.value in LEVELS:
            levels[change.name] = LEVELS[change.value]
        else:
            raise InvalidTopicConfig(
                f"Cannot set the log level of {change.name} to {change.value}: it is one of {', '.join(LEVELS)}"
            )
    for name, level in levels.items() if not dry_run else ():
        logging.getLogger(None if name == ROOT else name).setLevel(level)
