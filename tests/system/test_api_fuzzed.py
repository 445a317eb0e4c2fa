"""Requests made from the OpenAPI document: the broker answers them all, and none with a fault of its own."""

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.serving.program import ANY_PORT, PATIENCE_S, get, running

pytestmark = pytest.mark.system

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
"""Of each operation."""
ENDLESS = ("/v1/topics/{name}/follow",)
"""Answers a stream that goes on."""
OWN_FAULTS = (500, 501, 502)
THINGS = {"topics": "t", "queues": "q", "groups": "g", "exchanges": "amq.direct", "pipelines": "p", "tables": "t"}
SHORT = {"wait_ms": 0, "timeout_ms": 1}
"""So that nobody waits."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(Path(tmp_path_factory.mktemp("fuzzed")) / "data", "--listen", ANY_PORT) as program:
        found = program.wait_ready()["http"][0]
        _ask(found, "POST", "/v1/topics", {"name": "t", "partitions": 2})
        _ask(found, "POST", "/v1/queues", {"name": "q"})
        _ask(found, "POST", "/v1/topics/q/records", {"records": [{"value": 1}, {"text": "b"}]})
        yield found
        assert program.process.poll() is None, "it still runs"


def _ask(address: str, method: str, target: str, content: Any = None, media_type: str = "application/json") -> int:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        is_raw = isinstance(content, bytes)
        body = None if content is None else content if is_raw else json.dumps(content).encode()
        connection.request(method, target, body, {} if body is None else {"content-type": media_type})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def test_no_request_meets_a_fault_of_ours(address: str) -> None:
    schema = schemathesis.openapi.from_dict(json.loads(get(address, "/openapi.json")[1]))
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 80
    faults: list[str] = []

    def check(operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(operation.as_strategy(), st.booleans())
        def ask(case: Any, is_known: bool) -> None:
            steps = dict(case.path_parameters or {})
            if is_known and "name" in steps:
                steps["name"] = THINGS.get(case.path.split("/")[2], "t")
            target = case.path
            for name, value in steps.items():
                target = target.replace("{" + name + "}", quote(str(value), safe=""))
            query = {name: SHORT.get(name, value) for name, value in (case.query or {}).items()}
            if case.path.endswith("/request"):
                query["timeout_ms"] = 1
            target += f"?{urlencode(query)}" if query else ""
            content = case.body if isinstance(case.body, dict | list | str | int | float | bytes) else None
            if isinstance(content, dict):
                content = {name: SHORT.get(name, value) for name, value in content.items()}
            try:
                status = _ask(address, case.method, target, content, case.media_type or "application/json")
            except (http.client.InvalidURL, UnicodeEncodeError):
                return  # Our client cannot say it.
            if status in OWN_FAULTS:
                faults.append(f"{case.method} {target} {content!r}: {status}")

        ask()

    for operation in operations:
        if operation.path not in ENDLESS:
            check(operation)
    assert faults == []
