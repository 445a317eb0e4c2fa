"""Which requests a page in a browser may have sent."""

import pytest

from tests.support.clients.management_client import Admin, with_admin

FORM, TEXT = "Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain"
OWN = [
    pytest.param([FORM], id="curl -d"),
    pytest.param([TEXT], id="fetch of Node.js"),
    pytest.param([], id="no type"),
    pytest.param(["Content-Type: application/json", "Origin: http://localhost:15672"], id="own page"),
    pytest.param(["Origin: https://LOCALHOST:15672"], id="own page behind TLS"),
    pytest.param(["Origin: https://broker.example", "Sec-Fetch-Site: same-origin"], id="own page behind a proxy"),
    pytest.param(["Sec-Fetch-Site: none"], id="extension"),
]
OTHERS = [
    pytest.param([TEXT, "Origin: http://evil.example"], id="text"),
    pytest.param([FORM, "Origin: http://evil.example:15672"], id="form"),
    pytest.param(["Content-Type: application/json", "Origin: http://evil.example"], id="JSON"),
    pytest.param([TEXT, "Origin: null"], id="sandbox"),
    pytest.param([TEXT, "Origin: http://[evil"], id="no origin"),
    pytest.param([TEXT, "Origin: http://localhost:8080"], id="other port"),
    pytest.param([TEXT, "Sec-Fetch-Site: cross-site"], id="cross-site"),
    pytest.param([TEXT, "Sec-Fetch-Site: same-site", "Origin: http://localhost:15672"], id="same-site"),
]
WRITES = [
    ("PUT", "/queues/%2F/new", b'{"durable": true}'),
    ("POST", "/exchanges/%2F/amq.default/publish", b'{"properties": {}, "routing_key": "q", "payload": "x"}'),
    ("DELETE", "/queues/%2F/q", b""),
]


@pytest.mark.parametrize("headers", OWN)
def test_programs_and_own_pages_are_answered(headers: list[str]) -> None:
    @with_admin
    async def run(admin: Admin) -> None:
        await admin.put("/queues/%2F/q", {})
        replies = [await admin.ask(*write, host="localhost:15672", headers=headers) for write in WRITES]
        assert [reply.status for reply in replies] == [201, 200, 204]

    run()


@pytest.mark.parametrize("headers", OTHERS)
def test_pages_of_other_sites_change_nothing(headers: list[str]) -> None:
    @with_admin
    async def run(admin: Admin) -> None:
        await admin.put("/queues/%2F/q", {})
        for write in WRITES:
            reply = await admin.ask(*write, host="localhost:15672", headers=headers)
            assert (reply.status, reply.json()["error"]) == (403, "cross_site_request")
        (row,) = await admin.get("/queues")
        assert (row["name"], row["messages"]) == ("q", 0)
        assert (await admin.ask("GET", "/queues", host="localhost:15672", headers=headers)).status == 200

    run()
