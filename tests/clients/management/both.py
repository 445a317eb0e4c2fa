"""One broker, asked over its management API and over AMQP."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import pika
import pika.exceptions

from tests.support.serving.program import PATIENCE_S


class Both:
    """One broker, asked over HTTP and AMQP."""

    def __init__(self, amqp: str, management: str) -> None:
        self.port = int(amqp.rpartition(":")[2])
        self.management = management

    def connect(
        self, user: str = "guest", password: str = "guest", host: str = "/", **more: Any
    ) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, host, credentials, **more))

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.management}/api{path}", body, method=method)
        request.add_header("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            answer = reply.read()
        return json.loads(answer) if answer else None
