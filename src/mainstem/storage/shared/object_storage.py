"""The object store, by any server that speaks S3. Endpoint and credentials come from the usual AWS variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from mainstem.model.errors import CorruptData, DiskError, StoreUnreachable
from mainstem.storage.shared.ports import ListedObject

REQUEST_SECONDS_MAX = 30
RETRY_SECONDS_MAX = 5
LISTED_PER_REQUEST = 1_000
MULTIPART_BYTES = 8 << 20
TRIAL_KEY = "trial"


class S3Objects:
    """A bucket, from a prefix on."""

    def __init__(self, address: str) -> None:
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        options: dict[str, Any] = {}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            options["endpoint"] = endpoint
            options["virtual_hosted_style_request"] = False
        self.address = address
        self._store = S3Store(
            bucket,
            prefix=prefix.strip("/") or None,
            client_options={
                "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
                "connect_timeout": timedelta(seconds=3),
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
            },
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX)},
            **options,
        )

    def check(self, shard: str) -> None:
        """Write, read and remove an object. Raises DiskError with what is wrong."""
        key = f"{shard}/{TRIAL_KEY}-{os.getpid()}"
        try:
            self.put(key, (b"mainstem",))
            if self.get_range(key, 0, 4) != b"main":
                raise DiskError(f"{self.address} does not answer what was put there")
            self.delete([key])
        except StoreUnreachable as error:
            raise DiskError(f"{self.address} cannot be used: {error}") from error

    def put(self, key: str, content: Iterable[bytes]) -> None:
        """Keep an object; a large one in parts."""
        try:
            obstore.put(self._store, key, _joined(content))
        except (BaseError, OSError) as error:
            raise _unreachable(error) from error

    def get(self, key: str) -> bytes:
        """All of it."""
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except (NotFoundError, FileNotFoundError) as error:
            raise CorruptData(f"{self.address}/{key}", 0, "the object is missing") from error
        except (BaseError, OSError) as error:
            raise _unreachable(error) from error

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of it."""
        try:
            return bytes(obstore.get_range(self._store, key, start=start, length=length))
        except (NotFoundError, FileNotFoundError) as error:
            raise CorruptData(f"{self.address}/{key}", start, "the object is missing") from error
        except (BaseError, OSError) as error:
            raise _unreachable(error) from error

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects."""
        try:
            obstore.delete(self._store, list(keys))
        except (NotFoundError, FileNotFoundError):
            pass
        except (BaseError, OSError) as error:
            raise _unreachable(error) from error

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """All objects whose name begins so."""
        try:
            for page in obstore.list(self._store, prefix=prefix, chunk_size=LISTED_PER_REQUEST):
                for found in page:
                    yield ListedObject(found["path"], int(found["last_modified"].timestamp() * 1000))
        except (BaseError, OSError) as error:
            raise _unreachable(error) from error


def _joined(content: Iterable[bytes]) -> bytes | Iterator[bytes]:
    """A short object is one request; a long one is sent in parts, as it is read."""
    chunks = iter(content)
    first = next(chunks, b"")
    if len(first) < MULTIPART_BYTES:
        rest = next(chunks, None)
        if rest is None:
            return first
        return _chain(first, rest, chunks)
    return _chain(first, b"", chunks)


def _chain(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    if second:
        yield second
    yield from rest


def _unreachable(error: BaseException) -> StoreUnreachable:
    return StoreUnreachable(f"object store: {' '.join(str(error).split())[:300]}")
