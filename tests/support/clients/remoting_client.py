"""A client of the remoting protocol without sockets, in bytes of our own."""

import json
import struct
import zlib
from typing import Any, NamedTuple

from mainstem.transport.session import OpenSession
from tests.support.clients.session_client import SessionClient

JSON, BINARY = 0, 1
ANSWER, ONE_WAY = 1, 2


class Heard(NamedTuple):
    """A command of the broker."""

    code: int
    opaque: int
    flag: int
    fields: dict[str, str]
    body: bytes
    remark: str | None
    kind: int

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Pulled(NamedTuple):
    """A message of a pull answer."""

    topic: str
    queue: int
    offset: int
    place: int
    body: bytes
    properties: dict[str, str]
    reconsume_times: int
    born_ms: int
    flag: int


def frame(
    code: int,
    opaque: int = 0,
    fields: dict[str, Any] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
    kind: int = JSON,
) -> bytes:
    """A command as clients write it."""
    texts = {name: str(value) for name, value in (fields or {}).items()}
    if kind == JSON:
        head = json.dumps(
            {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 401, "extFields": texts}
        ).encode()
    else:
        pairs = b"".join(
            struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
            for name, value in texts.items()
        )
        head = struct.pack(">hBhii", code, 0, 401, opaque, flag) + struct.pack(">ii", 0, len(pairs)) + pairs
    return struct.pack(">iI", 4 + len(head) + len(body), kind << 24 | len(head)) + head + body


def heard(data: bytes) -> Heard:
    """A frame without its length."""
    mark = int.from_bytes(data[:4], "big")
    kind, size = mark >> 24, mark & 0xFFFFFF
    head, body = data[4 : 4 + size], data[4 + size :]
    if kind == JSON:
        said = json.loads(head)
        return Heard(
            said["code"], said["opaque"], said["flag"], said.get("extFields", {}), body, said.get("remark"), kind
        )
    code, _, _, opaque, flag, length = struct.unpack_from(">hBhiii", head)
    remark, at = head[17 : 17 + length].decode(), 17 + length + 4
    fields = {}
    while at < len(head):
        (length,) = struct.unpack_from(">h", head, at)
        name, at = head[at + 2 : at + 2 + length].decode(), at + 2 + length
        (length,) = struct.unpack_from(">i", head, at)
        fields[name], at = head[at + 4 : at + 4 + length].decode(), at + 4 + length
    return Heard(code, opaque, flag, fields, body, remark or None, kind)


def messages(data: bytes) -> list[Pulled]:
    """Those of a pull answer."""
    found, at = [], 0
    while at < len(data):
        size, magic, crc, queue, flag, offset, place, _, born = struct.unpack_from(">iIIiiqqiq", data, at)
        reconsume, _, length = struct.unpack_from(">iqi", data, at + 48 + 8 + 8 + 8)
        start = at + 48 + 8 + 8 + 8 + 16
        body = data[start : start + length]
        assert zlib.crc32(body) & 0x7FFFFFFF == crc
        width = 1 if magic == 0xDAA320A7 else 2
        end = start + length + width
        named = int.from_bytes(data[start + length : end], "big")
        topic = data[end : end + named].decode()
        written = int.from_bytes(data[end + named : end + named + 2], "big")
        text = data[end + named + 2 : end + named + 2 + written].decode()
        properties = dict(pair.split("\x01") for pair in text.split("\x02") if pair)
        assert end + named + 2 + written == at + size
        found.append(Pulled(topic, queue, offset, place, body, properties, reconsume, born, flag))
        at += size
    return found


def properties_text(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def batch(bodies: list[tuple[bytes, dict[str, str]]]) -> bytes:
    """Messages as a producer sends several."""
    out = b""
    for body, properties in bodies:
        text = properties_text(properties).encode()
        out += struct.pack(">iIIii", 22 + len(body) + len(text), 0xDAA320A7, 0, 0, len(body)) + body
        out += struct.pack(">H", len(text)) + text
    return out


class RemotingClient(SessionClient):
    """One connection."""

    def __init__(self, open_session: OpenSession, peer: str = "") -> None:
        super().__init__(open_session, peer)
        self.opaque = 0
        self.kept: list[Heard] = []
        """What was said, and nobody asked for yet."""

    def send(self, code: int, fields: dict[str, Any] | None = None, body: bytes = b"", **options: int) -> int:
        """A request; answers its number."""
        self.opaque += 1
        self.send_bytes(frame(code, self.opaque, fields, body, **options))
        return self.opaque

    def _take(self) -> list[Heard]:
        self.pump()  # It may have been said before anybody listened.
        found = []
        while len(self.output) >= 4 and len(self.output) >= 4 + (size := int.from_bytes(self.output[:4], "big")):
            found.append(heard(bytes(self.output[4 : 4 + size])))
            del self.output[: 4 + size]
        return found

    async def hear(self) -> list[Heard]:
        """What the broker says next, at least one command."""
        while not (found := self._take()):
            await self.wait_woken()
        return found

    async def ask(self, code: int, fields: dict[str, Any] | None = None, body: bytes = b"", **options: int) -> Heard:
        """The answer to a request."""
        number = self.send(code, fields, body, **options)
        return await self.answer(number)

    async def answer(self, number: int) -> Heard:
        """To a request that was sent before."""
        while True:
            for one in [*self.kept]:
                if one.opaque == number and one.flag & ANSWER:
                    self.kept.remove(one)
                    return one
            self.kept += await self.hear()

    async def pushed(self, code: int) -> Heard:
        """A request of the broker."""
        while True:
            for one in [*self.kept]:
                if one.code == code and not one.flag & ANSWER:
                    self.kept.remove(one)
                    return one
            self.kept += await self.hear()

    # What tests say most often

    async def publish(
        self, topic: str, body: bytes, properties: dict[str, str] | None = None, queue: int = 0, **more: Any
    ) -> Heard:
        fields = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1_700_000_000_000}
        fields |= {"h": 0, "i": properties_text(properties or {}), "j": 0, "k": "false", "m": "false", **more}
        return await self.ask(310, fields, body)

    def begin_pull(
        self, topic: str, offset: int, queue: int = 0, group: str = "g", wait_ms: int = 0, **more: Any
    ) -> int:
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset, "maxMsgNums": 32}
        fields |= {"sysFlag": 2 if wait_ms else 0, "commitOffset": 0, "suspendTimeoutMillis": wait_ms, "subVersion": 0}
        return self.send(11, fields | more)

    async def pull(self, topic: str, offset: int, queue: int = 0, **more: Any) -> Heard:
        return await self.answer(self.begin_pull(topic, offset, queue, **more))

    async def beat(self, client_id: str, group: str, topic: str, expression: str = "*", **more: Any) -> Heard:
        """As a push consumer does."""
        subscription = {"topic": topic, "subString": expression, "expressionType": "TAG", "subVersion": 1, **more}
        consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        consumer |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}
        document = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}]}
        return await self.ask(34, {}, json.dumps(document).encode())
