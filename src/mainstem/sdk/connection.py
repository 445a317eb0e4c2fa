"""One blocking connection to a Kafka listener: requests by the tables of `wire.kafka`, answers in order.

Every wait has a bound. A connection that failed once is closed and says so at the next use.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from typing import Any, Final

from mainstem.model.errors import PeerError
from mainstem.sdk.credentials import Credentials
from mainstem.sdk.errors import AuthenticationFailed, BrokerRefused, BrokerUnreachable, ConnectionLost
from mainstem.sdk.scram import ScramClient, ScramFailed
from mainstem.wire.kafka import ApiKey, ErrorCode, api_of, decode_response, encode_request

TIMEOUT_S = 30.0
RESPONSE_BYTES_MAX = 512 << 20
"""A broker that announces more is not one of ours."""
SEND_BUFFERS_MAX = 64

SOFTWARE_NAME = "mainstem"
SOFTWARE_VERSION = "0"

_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_FALLBACK_VERSION: Final = 0

VERSIONS_MAX: Final = {
    # from version 13 on, topics go by id
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}


class BrokerConnection:
    """Use `request`; or `send` and later `receive`, to have the broker work meanwhile."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        credentials: Credentials | None = None,
        timeout_s: float = TIMEOUT_S,
        client_id: str = "mainstem",
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._correlation_id = 0
        self._awaited: list[tuple[int, int, int]] = []
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise BrokerUnreachable(self.address, error.strerror or str(error)) from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._learn_versions()
            if credentials is not None:
                self._authenticate(credentials)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """At once; what was awaited is lost."""
        self._awaited.clear()
        with contextlib.suppress(OSError):
            self._socket.close()

    @property
    def is_open(self) -> bool:
        """Whether nothing has failed on it yet."""
        return self._socket.fileno() >= 0

    def request(self, api_key: int, body: Any, *, timeout_s: float | None = None) -> Any:
        """Sends and waits for the answer."""
        self.send(api_key, body)
        return self.receive(timeout_s=timeout_s)

    def send(self, api_key: int, body: Any) -> None:
        """Sends; the answer is the next one that `receive` has not given yet."""
        version = self._version_of(api_key)
        self._correlation_id += 1
        message = encode_request(api_key, version, body, correlation_id=self._correlation_id, client_id=self._client_id)
        self._send_all(_SIZE.pack(len(message)), message)
        self._awaited.append((api_key, version, self._correlation_id))

    def receive(self, *, timeout_s: float | None = None) -> Any:
        """The answer to the oldest request that has none yet; records in it are views of the receive buffer."""
        api_key, version, correlation_id = self._awaited.pop(0)
        answer = self._receive_message(timeout_s)
        if api_key == ApiKey.API_VERSIONS and _INT16.unpack_from(answer, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
            version = _FALLBACK_VERSION
        try:
            given_id, response = decode_response(api_key, version, answer)
        except PeerError as fact:
            self.close()
            raise ConnectionLost(self.address, f"its answer cannot be read: {fact}") from None
        if given_id != correlation_id:
            self.close()
            raise ConnectionLost(self.address, f"it answered {given_id} instead of {correlation_id}")
        return response

    def _version_of(self, api_key: int) -> int:
        ours = api_of(api_key).versions
        theirs = self._versions.get(api_key)
        if theirs is None:
            raise BrokerRefused(f"{api_of(api_key).name} to {self.address}", ErrorCode.UNSUPPORTED_VERSION)
        version = min(ours.last, theirs[1], VERSIONS_MAX.get(ApiKey(api_key), ours.last))
        if version < max(ours.first, theirs[0]):
            raise BrokerRefused(f"{api_of(api_key).name} to {self.address}", ErrorCode.UNSUPPORTED_VERSION)
        return version

    def _learn_versions(self) -> None:
        self._versions = {ApiKey.API_VERSIONS: (0, 3)}
        answer = self.request(
            ApiKey.API_VERSIONS,
            {"client_software_name": SOFTWARE_NAME, "client_software_version": SOFTWARE_VERSION},
        )
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            raise BrokerRefused(f"A connection to {self.address}", answer.error_code)
        self._versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    def _authenticate(self, credentials: Credentials) -> None:
        answer = self.request(ApiKey.SASL_HANDSHAKE, {"mechanism": credentials.mechanism})
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(self.address, f"{credentials.mechanism} is not offered; offered: {offered}")
        if credentials.mechanism == "PLAIN":
            self._authenticate_step(f"\0{credentials.user}\0{credentials.password}".encode())
            return
        scram = ScramClient(credentials.user, credentials.password, credentials.mechanism, secrets.token_urlsafe(24))
        try:
            proof = scram.final(self._authenticate_step(scram.first()))
            scram.check(self._authenticate_step(proof))
        except ScramFailed as reason:
            raise AuthenticationFailed(self.address, str(reason)) from None

    def _authenticate_step(self, content: bytes) -> bytes:
        answer = self.request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": content})
        if answer.error_code:
            raise AuthenticationFailed(self.address, answer.error_message or ErrorCode(answer.error_code).name)
        return bytes(answer.auth_bytes)

    def _send_all(self, *parts: bytes | bytearray) -> None:
        views = [memoryview(part) for part in parts]
        deadline = time.monotonic() + self._timeout_s
        try:
            while views:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                sent = self._socket.sendmsg(views[:SEND_BUFFERS_MAX])
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if sent:
                    views[0] = views[0][sent:]
        except OSError as error:
            raise self._lost(error) from None

    def _receive_message(self, timeout_s: float | None) -> memoryview:
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        size = _SIZE.unpack(self._receive_exactly(_SIZE.size, deadline))[0]
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            self.close()
            raise ConnectionLost(self.address, f"it announces an answer of {size} bytes; is it a Kafka listener?")
        return self._receive_exactly(size, deadline)

    def _receive_exactly(self, size: int, deadline: float) -> memoryview:
        view = memoryview(bytearray(size))
        position = 0
        try:
            while position < size:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                received = self._socket.recv_into(view[position:])
                if not received:
                    raise ConnectionResetError(0, "it closed the connection")
                position += received
        except OSError as error:
            raise self._lost(error) from None
        return view

    def _lost(self, error: OSError) -> ConnectionLost:
        self.close()
        if isinstance(error, TimeoutError):
            return ConnectionLost(self.address, f"no answer within {self._timeout_s:g} s")
        return ConnectionLost(self.address, error.strerror or str(error))
