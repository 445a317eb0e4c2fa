"""Requests to the administration."""

import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.serving.pulsar import PulsarServer


def ask(broker: PulsarServer, method: str, path: str, body: object = None) -> Any:
    """The answer; of a refusal, its status."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{broker.admin}/{path}", content, method=method)
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            found = reply.read()
    except urllib.error.HTTPError as error:
        return error.code if "reason" in json.load(error) else None
    try:
        return json.loads(found) if found else None
    except ValueError:
        return found
