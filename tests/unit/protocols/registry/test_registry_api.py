"""The paths of the registry, over the pure session: documents, codes, parameters."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.model.errors import Overloaded
from mainstem.protocols.http.adapter import HttpAdapter
from mainstem.protocols.http.session import HttpSettings
from mainstem.protocols.registry.adapter import RegistryAdapter, check_listening
from mainstem.protocols.registry.session import RegistrySettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.transport.address import Address
from tests.support.clients.fixed_operations import FixedOperations
from tests.support.clients.http_client import Reply, read_replies, request_bytes
from tests.support.clients.management_client import FixedListener
from tests.support.clients.session_driver import Driver
from tests.support.worlds.brokers import refuse_once, with_engine

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
WIDER = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}


class Registry:
    """Asks, one request at a time."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._later: list[Coroutine[Any, Any, None]] = []
        operations = FixedOperations()
        operations.listeners = [FixedListener("schema-registry", Address("127.0.0.1", 8085))]
        self.adapter = RegistryAdapter(RegistrySettings(), broker, operations, self._later.append)

    async def ask(
        self, method: str, path: str, content: Any = None, host: str = "localhost", headers: Sequence[str] = ()
    ) -> Reply:
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        driver = Driver(self.adapter.open_session)
        driver.feed(request_bytes(path, *headers, method=method, body=body, host=host))
        while not driver.output:
            while self._later:
                await self._later.pop()
            driver.pump()
            await asyncio.sleep(0)  # a thread may be looking at the password
        (reply,) = read_replies(bytes(driver.output), [method])
        return reply

    async def get(self, path: str) -> Any:
        return await self.right("GET", path)

    async def right(self, method: str, path: str, content: Any = None) -> Any:
        reply = await self.ask(method, path, content)
        assert reply.status == 200, reply.body
        assert ("content-type", "application/vnd.schemaregistry.v1+json") in reply.headers.items()
        return reply.json()

    async def wrong(self, code: int, method: str, path: str, content: Any = None) -> str:
        reply = await self.ask(method, path, content)
        document = reply.json()
        assert document["error_code"] == code, document
        assert reply.status == (code if code < 1000 else code // 100), document
        return str(document["message"])

    async def register(self, subject: str, schema: Any = RECORD, **more: Any) -> int:
        content = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        return int((await self.right("POST", f"/subjects/{subject}/versions", content))["id"])


def with_registry(test: Callable[[Registry], Awaitable[None]]) -> Callable[[], None]:
    async def run(engine: MemoryEngine) -> None:
        await test(Registry(await Broker.open(engine, LoopClock())))

    run.__name__ = test.__name__
    return with_engine(run)


@with_registry
async def test_a_subject_from_its_first_version_to_its_end(registry: Registry) -> None:
    assert await registry.get("/subjects") == []
    assert await registry.register("a/b%2Fc".replace("/", "%2F"), RECORD) == 1
    assert await registry.get("/subjects") == ["a/b/c"]
    assert await registry.get("/subjects/a%2Fb%2Fc/versions") == [1]
    found = await registry.get("/subjects/a%2Fb%2Fc/versions/latest")
    assert found["schema"] == '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    assert (found["id"], found["version"], found["subject"]) == (1, 1, "a/b/c")
    assert "schemaType" not in found
    assert (await registry.get("/schemas/ids/1"))["schema"] == found["schema"]
    assert await registry.get("/schemas/ids/1/versions") == [{"subject": "a/b/c", "version": 1}]
    assert await registry.get("/schemas/ids/1/subjects") == ["a/b/c"]
    assert json.loads((await registry.ask("GET", "/schemas/ids/1/schema")).body) == RECORD
    assert (await registry.get("/schemas"))[0]["id"] == 1
    assert (await registry.get("/schemas/ids/1?fetchMaxId=true"))["maxId"] == 1
    assert await registry.get(f"/schemas/guids/{found['guid']}/ids") == [{"context": ".", "id": 1}]
    assert await registry.right("DELETE", "/subjects/a%2Fb%2Fc/versions/1") == 1
    await registry.wrong(40406, "DELETE", "/subjects/a%2Fb%2Fc/versions/1")
    assert await registry.get("/subjects?deletedOnly=true") == ["a/b/c"]
    assert await registry.get("/subjects/a%2Fb%2Fc/versions?deletedOnly=true") == [1]
    await registry.wrong(40404, "DELETE", "/subjects/a%2Fb%2Fc")
    assert await registry.right("DELETE", "/subjects/a%2Fb%2Fc?permanent=true") == [1]
    await registry.wrong(40401, "DELETE", "/subjects/a%2Fb%2Fc?permanent=true")
    await registry.wrong(40403, "GET", "/schemas/ids/1")


@with_registry
async def test_codes(registry: Registry) -> None:
    await registry.register("s")
    broken = {"schema": '{"type": "nonsense"}'}
    for code, method, path, content in (
        (40401, "GET", "/subjects/x/versions", None),
        (40401, "POST", "/subjects/x", {"schema": '"int"'}),
        (40402, "GET", "/subjects/s/versions/7", None),
        (40403, "GET", "/schemas/ids/7", None),
        (40403, "POST", "/subjects/s", {"schema": '"int"'}),
        (40403, "GET", "/schemas/guids/7", None),
        (40405, "DELETE", "/subjects/s?permanent=true", None),
        (40407, "DELETE", "/subjects/s/versions/1?permanent=true", None),
        (40408, "GET", "/config/s", None),
        (40409, "GET", "/mode/s", None),
        (42201, "POST", "/subjects/s/versions", broken),
        (42201, "POST", "/subjects/s/versions", {"schema": ""}),
        (42201, "POST", "/subjects/s/versions", {"schema": '"int"', "schemaType": "XML"}),
        (42201, "POST", "/subjects/s/versions", {"schema": '"X"', "references": [
            {"name": "X", "subject": "y", "version": 1}]}),
        (42201, "GET", "/schemas/ids/1?format=serialized", None),
        (42202, "GET", "/subjects/s/versions/0", None),
        (42202, "GET", "/subjects/s/versions/first", None),
        (42203, "PUT", "/config", {"compatibility": "SOME"}),
        (42204, "PUT", "/mode", {"mode": "SOME"}),
        (42205, "PUT", "/mode/s", {"mode": "IMPORT"}),
        (42205, "POST", "/subjects/s/versions", {"schema": '"int"', "id": 7}),
        (42208, "GET", "/subjects/:.x/versions", None),
        (422, "PUT", "/config", {"defaultMetadata": {"properties": {}}}),
        (422, "POST", "/subjects/s/versions", {"schema": '"int"', "references": [{"name": "x"}]}),
        (422, "POST", "/subjects/s/versions", {"schema": '"int"', "metadata": {"properties": "x"}}),
        (422, "POST", "/subjects/s/versions", {"schema": '"int"', "ruleSet": {"domainRules": [{"x": 10**30}]}}),
        (422, "POST", "/subjects/s/versions", {"schema": '"int"', "ruleSet": [1]}),
        (422, "GET", "/subjects?deleted=perhaps", None),
        (422, "GET", "/subjects?limit=many", None),
        (400, "POST", "/subjects/s/versions", b"{"),
        (404, "GET", "/nothing", None),
        (405, "PATCH", "/subjects", None),
        (409, "POST", "/subjects/s/versions", {"schema": json.dumps(WIDER)}),
    ):  # fmt: skip
        assert await registry.wrong(code, method, path, content)


@with_registry
async def test_compatibility_with_what_stands_against_it(registry: Registry) -> None:
    await registry.register("s")
    content = {"schema": json.dumps(WIDER)}
    for path in ("/compatibility/subjects/s/versions/latest", "/compatibility/subjects/s/versions"):
        assert await registry.right("POST", path, content) == {"is_compatible": False}
        verbose = await registry.right("POST", f"{path}?verbose=true", content)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
        assert "{oldSchemaVersion: 1}" in verbose["messages"]
    await registry.wrong(40401, "POST", "/compatibility/subjects/x/versions/latest", content)
    await registry.wrong(40402, "POST", "/compatibility/subjects/s/versions/5", content)
    await registry.right("PUT", "/config/s", {"compatibility": "none"})
    assert await registry.right("POST", "/compatibility/subjects/s/versions", content) == {"is_compatible": True}


@with_registry
async def test_settings(registry: Registry) -> None:
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert await registry.right("PUT", "/config", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert await registry.get("/config/s?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    await registry.right("PUT", "/config/s", {"compatibility": "NONE", "normalize": True})
    await registry.right("PUT", "/config/s", {"compatibilityGroup": "major"})
    assert await registry.get("/config/s") == {
        "compatibilityLevel": "NONE", "normalize": True, "compatibilityGroup": "major",
    }  # fmt: skip
    assert (await registry.right("DELETE", "/config/s"))["compatibilityLevel"] == "NONE"
    await registry.wrong(40401, "DELETE", "/config/s")
    assert await registry.right("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    await registry.wrong(42205, "POST", "/subjects/s/versions", {"schema": '"int"'})
    assert await registry.right("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert await registry.get("/mode") == {"mode": "READWRITE"}
    await registry.right("PUT", "/config/other", {"alias": "s"})
    await registry.register("other", '"int"')
    assert await registry.get("/subjects") == ["s"]


@with_registry
async def test_only_versions_of_one_group_are_compared(registry: Registry) -> None:
    await registry.right("PUT", "/config/s", {"compatibilityGroup": "major"})
    await registry.register("s", RECORD, metadata={"properties": {"major": "1"}})
    await registry.register("s", WIDER, metadata={"properties": {"major": "2"}})
    found = await registry.get("/subjects/s/metadata?key=major&value=1")
    assert (found["version"], found["metadata"]) == (1, {"properties": {"major": "1"}})
    content = {"schema": '"int"', "metadata": {"properties": {"major": "2"}}}
    await registry.wrong(409, "POST", "/subjects/s/versions", content)


@with_registry
async def test_contexts_separate_subjects_and_ids(registry: Registry) -> None:
    await registry.register("s")
    assert await registry.register(":.shop:s", '"string"') == 1
    assert await registry.get("/contexts") == [".", ".shop"]
    assert await registry.get("/subjects") == ["s", ":.shop:s"]
    assert await registry.get("/subjects?subjectPrefix=:.shop:") == [":.shop:s"]
    assert await registry.get("/contexts/.shop/subjects/s/versions") == [1]
    assert (await registry.get("/schemas/ids/1?subject=:.shop:s"))["schema"] == '"string"'
    assert (await registry.get("/contexts/:.shop:/schemas/ids/1"))["schema"] == '"string"'
    assert await registry.get("/subjects?offset=1&limit=1") == [":.shop:s"]


@with_registry
async def test_normalize_makes_one_of_two(registry: Registry) -> None:
    one, other = '{"type":"object","title":"x"}', '{"title":"x","type":"object"}'
    content = {"schemaType": "JSON"}
    first = await registry.right("POST", "/subjects/s/versions?normalize=true", {"schema": one, **content})
    again = await registry.right("POST", "/subjects/s/versions?normalize=true", {"schema": other, **content})
    assert first == again
    found = await registry.right("POST", "/subjects/s?normalize=true", {"schema": one, **content})
    assert found["version"] == 1


@with_registry
async def test_protobuf_as_text_and_as_descriptor_is_one_schema(registry: Registry) -> None:
    head = 'syntax = "proto3"; // a comment\nimport "google/protobuf/timestamp.proto"; '
    text = head + "message M { google.protobuf.Timestamp at = 1; }"
    number = await registry.register("s", text, schemaType="PROTOBUF")
    serialized = (await registry.get(f"/schemas/ids/{number}?format=serialized"))["schema"]
    assert await registry.register("s", serialized, schemaType="PROTOBUF") == number


@with_registry
async def test_references_to_the_newest_version(registry: Registry) -> None:
    await registry.register("base", {"type": "fixed", "name": "F", "size": 4})
    reference = [{"name": "F", "subject": "base", "version": -1}]
    number = await registry.register("s", {"type": "array", "items": "F"}, references=reference)
    found = await registry.get(f"/schemas/ids/{number}")
    assert found["references"] == [{"name": "F", "subject": "base", "version": 1}]
    assert "fixed" in (await registry.get(f"/schemas/ids/{number}?format=resolved"))["schema"]
    assert await registry.get("/subjects/base/versions/1/referencedby") == [number]
    await registry.wrong(42206, "DELETE", "/subjects/base/versions/1")


@with_registry
async def test_itself(registry: Registry) -> None:
    assert await registry.get("/") == {}
    assert set(await registry.get("/schemas/types")) == {"AVRO", "JSON", "PROTOBUF"}
    cluster = (await registry.get("/v1/metadata/id"))["scope"]["clusters"]
    assert cluster["kafka-cluster"] == registry.broker.cluster_id
    assert "version" in await registry.get("/v1/metadata/version")
    assert (await registry.ask("GET", "/subjects", host="evil.example")).status == 421


@with_engine
async def test_a_store_that_fails_is_said_to(engine: MemoryEngine) -> None:
    registry = Registry(await Broker.open(engine, LoopClock()))
    refuse_once(engine)
    reply = await registry.ask("POST", "/subjects/s/versions", {"schema": '"int"'})
    assert (reply.status, reply.json()["error_code"]) == (500, 50001)
    assert Overloaded.__name__ not in reply.body.decode()


@with_engine
async def test_the_http_listener_has_the_same_paths(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    mounted = RegistryAdapter(RegistrySettings(), broker, FixedOperations())
    adapter = HttpAdapter(HttpSettings(), broker, FixedOperations(), mounts={"registry": mounted.answer})
    for path, status in (("/registry/subjects", 200), ("/registry", 200), ("/registry/x", 404), ("/registryx", 404)):
        driver = Driver(adapter.open_session)
        driver.feed(request_bytes(path))
        (reply,) = read_replies(bytes(driver.output), ["GET"])
        assert reply.status == status, path


def test_it_stays_on_this_machine_unless_asked() -> None:
    check_listening(RegistrySettings(), ["127.0.0.1"])
    check_listening(RegistrySettings(anybody_from_anywhere=True), ["0.0.0.0"])
    with pytest.raises(ValueError, match="anybody_from_anywhere"):
        check_listening(RegistrySettings(), ["0.0.0.0"])


@with_registry
async def test_users_log_in_and_their_tags_decide(registry: Registry) -> None:
    access = registry.broker.access
    await access.put(User("ann", access.passwords.hash("secret"), tags=("monitoring",)))

    async def ask(method: str, user: str, path: str = "/subjects", content: Any = None) -> int:
        header = f"Authorization: Basic {base64.b64encode(user.encode()).decode()}"
        return (await registry.ask(method, path, content, headers=[header])).status

    assert await ask("GET", "ann:wrong") == 401
    assert await ask("GET", "ann:secret") == 200
    assert await ask("POST", "ann:secret", "/subjects/s/versions", {"schema": '"int"'}) == 403
    await access.put(User("bob", access.passwords.hash("secret"), tags=("administrator",)))
    assert await ask("POST", "bob:secret", "/subjects/s/versions", {"schema": '"int"'}) == 200
