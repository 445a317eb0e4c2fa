"""Users of the broker, by Pulsar's clients and over HTTP."""

import base64
import json
import urllib.error
import urllib.request

import pulsar
import pytest
from pulsar import AuthenticationBasic, AuthenticationToken

from tests.support.serving.pulsar import PulsarServer

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_MS = 30_000
GUEST = "guest:guest"


def ask(address: str, method: str, path: str, who: str, body: object = None) -> int:
    """The status."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}/{path}", content, method=method)
    request.add_header("content-type", "application/json")
    request.add_header("authorization", "Basic " + base64.b64encode(who.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def add_user(broker: PulsarServer, name: str, read: str, tags: str = "") -> None:
    assert ask(broker.management, "PUT", f"api/users/{name}", GUEST, {"password": "secret", "tags": tags}) in (201, 204)
    rights = {"configure": "", "write": ".*", "read": read}
    assert ask(broker.management, "PUT", f"api/permissions/%2F/{name}", GUEST, rights) in (201, 204)


def connect(url: str, authentication: pulsar.Authentication) -> pulsar.Client:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(url, authentication=authentication, operation_timeout_seconds=5, logger=quiet)


def test_a_user_does_what_it_may(broker: PulsarServer, name: str) -> None:
    add_user(broker, name, read=f"{name}-read")
    client = connect(broker.url, AuthenticationBasic(name, "secret"))
    consumer = client.subscribe(f"{name}-read", "s")
    client.create_producer(f"{name}-read").send(b"x")
    assert consumer.receive(PATIENCE_MS).data() == b"x"
    client.create_producer(f"{name}-other")
    with pytest.raises(pulsar.AuthorizationError):
        client.subscribe(f"{name}-other", "s")
    client.close()


@pytest.mark.parametrize(
    "authentication",
    [
        AuthenticationBasic("nobody", "secret"),
        AuthenticationToken("no.such.token"),
        AuthenticationBasic("guest", "guest", "unknown"),
    ],
)
def test_who_proves_nothing_is_not_let_in(
    broker: PulsarServer, name: str, authentication: pulsar.Authentication
) -> None:
    client = connect(broker.url, authentication)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(name)
    client.close()


def test_administration_is_for_administrators(broker: PulsarServer, name: str) -> None:
    add_user(broker, name, read="")
    add_user(broker, f"{name}-admin", read="", tags="administrator")
    assert ask(broker.admin, "PUT", f"admin/v2/tenants/{name}", f"{name}:secret", {}) == 403
    assert ask(broker.admin, "GET", "admin/v2/persistent/public/default/t/partitions", f"{name}:secret") == 200
    assert ask(broker.admin, "GET", "admin/v2/tenants", f"{name}:wrong") == 401
    assert ask(broker.admin, "PUT", f"admin/v2/tenants/{name}", f"{name}-admin:secret", {}) == 204
