"""From a request to its handler, and from what that answers to a response."""

from __future__ import annotations

import inspect
import logging
import struct
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mainstem.model.errors import PeerError
from mainstem.model.peer import TEXT_CHARACTERS_MAX
from mainstem.protocols.kafka.handlers.calls import Body, Call, MeterOf, Served, Spawn
from mainstem.protocols.kafka.handlers.records.fetch import FetchHandler
from mainstem.protocols.kafka.handlers.records.produce import ProduceHandler
from mainstem.protocols.kafka.handlers.throttles import Throttles
from mainstem.protocols.kafka.session.machine import NOT_TIMED, ConnectionState, Reply
from mainstem.wire.kafka import ApiKey, ErrorCode, api_of, decode_request, decode_request_header, encode_response

log = logging.getLogger(__name__)

_SIZE = struct.Struct(">i")
PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
BEFORE_AUTHENTICATION = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What may be asked by who has not said who it is."""


UNTIMED = {PRODUCE: 15}
"""There are hundreds of thousands of them per second, each a few microseconds of work: one in sixteen is timed."""


class Requests:
    """All APIs by their key."""

    def __init__(
        self,
        produce: ProduceHandler,
        fetch: FetchHandler,
        served: Mapping[int, Served],
        spawn: Spawn,
        throttles: Throttles,
        meter: MeterOf,
        admit_silent: Callable[[ConnectionState, Reply], bool] | None = None,
    ) -> None:
        self._produce = produce.handle
        self._fetch = fetch.handle
        self._served = served
        self._spawn = spawn
        self._throttles = throttles
        self._meters = {int(key): meter(api_of(key).name, UNTIMED.get(key, 0)) for key in (PRODUCE, FETCH, *served)}
        self._admit_silent = admit_silent or (lambda connection, reply: True)

    def handle(self, request: memoryview, reply: Reply, connection: ConnectionState) -> None:
        """Deal with a request; one that cannot be understood closes its connection, as in Kafka."""
        try:
            key = (request[0] << 8) | request[1]
            meter = self._meters.get(key)
            if meter is not None:
                meter.requests += 1
                if not meter.requests & meter.untimed:
                    reply.meter, reply.begun = meter, meter.clock()
            if not (
                connection.is_authenticated or key in BEFORE_AUTHENTICATION or self._admit_silent(connection, reply)
            ):
                reply.refuse()
            elif self._throttles.is_active:
                if reply.meter is None and meter is not None:
                    reply.meter, reply.begun = meter, NOT_TIMED
                self._throttles.handle(request, key, reply, connection, self._dispatch)
            elif key == PRODUCE:
                self._produce(request, reply)
            else:
                self._dispatch(key, request, reply, connection)
        except (PeerError, struct.error, IndexError, UnicodeDecodeError) as error:
            log.info("a request cannot be understood, its connection is closed: %s", error)
            reply.refuse()

    def _dispatch(self, key: int, request: memoryview, reply: Reply, connection: ConnectionState) -> None:
        if key == PRODUCE:
            self._produce(request, reply)
        elif key == FETCH:
            self._fetch(request, reply, connection)
        else:
            self._handle_cold(request, reply, connection)

    def _handle_cold(self, request: memoryview, reply: Reply, connection: ConnectionState) -> None:
        header = decode_request_header(request)
        served = self._served.get(header.api_key)
        if served is None or header.api_version not in served.versions:
            if header.api_key == ApiKey.API_VERSIONS:
                # KIP-511: answered in version 0, from which the client learns which one to ask in.
                body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": announced(self._served)}
                self._respond(reply, ApiKey.API_VERSIONS, 0, header.correlation_id, body)
                return
            log.info("API %d has no version %d here: connection closed", header.api_key, header.api_version)
            reply.refuse()
            return
        _, body = decode_request(request)
        if header.client_id:
            connection.peer.name = header.client_id[:TEXT_CHARACTERS_MAX]
        call = Call(body, header.api_version, header.client_id or "", reply, connection)
        answer = served.handler(call)
        if inspect.iscoroutine(answer):
            self._spawn(self._answer_later(answer, reply, header.api_key, header.api_version, header.correlation_id))
        else:
            assert isinstance(answer, dict)
            self._respond(reply, header.api_key, header.api_version, header.correlation_id, answer)

    async def _answer_later(
        self, answer: Coroutine[Any, Any, Body], reply: Reply, key: int, version: int, correlation_id: int
    ) -> None:
        try:
            self._respond(reply, key, version, correlation_id, await answer)
        except Exception:
            # Ours, met by this request: it costs its connection, not the broker.
            log.exception("%s failed; its connection is closed", api_of(key).name)
            reply.refuse()

    def _respond(self, reply: Reply, key: int, version: int, correlation_id: int, body: Body) -> None:
        if key == ApiKey.SHARE_FETCH and reply.allowance is not None:
            # Records that were given out are held for their member: so they go out, and the wait follows them.
            reply.allowance.charge(_share_bytes(body), reply)
        if reply.throttle_ms and "throttle_time_ms" in api_of(key).response.type.__struct_fields__:
            body = body | {"throttle_time_ms": reply.throttle_ms}
        response = encode_response(key, version, body, correlation_id=correlation_id)
        reply.send(_SIZE.pack(len(response)), response)


def _share_bytes(body: Body) -> int:
    topics = body.get("responses", ())
    return sum(len(partition.get("records", b"")) for topic in topics for partition in topic["partitions"])


def announced(served: Mapping[int, Served]) -> list[Body]:
    """What ApiVersions says, lowest key first."""
    ranges = [{"api_key": key, "min_version": first, "max_version": last} for key, (_, first, last) in served.items()]
    # Produce 0 to 2 are announced and refused, as Kafka does: librdkafka takes their absence for an ancient broker.
    ranges.append({"api_key": ApiKey.PRODUCE, "min_version": 0, "max_version": ProduceHandler.VERSIONS.last})
    ranges.append(
        {
            "api_key": ApiKey.FETCH,
            "min_version": FetchHandler.VERSIONS.first,
            "max_version": FetchHandler.VERSIONS.last,
        }
    )
    return sorted(ranges, key=lambda entry: entry["api_key"])
