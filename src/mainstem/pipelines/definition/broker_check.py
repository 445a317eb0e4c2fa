"""Whether what a definition names is there: asked of the broker, without Spark."""

from __future__ import annotations

import difflib

from mainstem.pipelines.definition.errors import DefinitionRefused, Problem
from mainstem.pipelines.definition.pipeline import Pipeline
from mainstem.sdk.client import Client

TIMEOUT_S = 10.0


def check_topics(pipeline: Pipeline, address: str) -> None:
    """Every topic that is read must exist. Raises DefinitionRefused, ClientError."""
    with Client(address, timeout_s=TIMEOUT_S, client_id="mainstem-pipeline") as client:
        known = client.partition_counts()
    problems = []
    for source in pipeline.sources.values():
        named = {"topic": [source.target], "table": [source.target], "topics": source.target.split(",")}.get(
            source.kind
        )
        for topic in (name.strip() for name in named or ()):
            if topic not in known:
                near = difflib.get_close_matches(topic, list(known), 1)
                hint = f"did you mean {near[0]!r}?" if near else "create it first"
                problems.append(Problem(source.place, f"there is no topic {topic!r}; {hint}"))
    if problems:
        raise DefinitionRefused(problems)
