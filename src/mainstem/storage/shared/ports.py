"""What a shared store is made of, as narrow ports: a catalog that orders and fences, and an object store that holds bytes.

Both block, and are called from threads. Both raise StoreUnreachable when an answer did not come: then the call may have had its
effect, and every call of this module may be repeated until it is answered.

Every change of the catalog names the shard's epoch, and is refused with OwnershipLost when another owner has begun one.

An object's name is never used twice, and says when it was made, by the catalog's clock. The catalog refuses to name an object
that is older than `UPLOAD_AGE_SHARE` of the grace (LateUpload), so that a reaper, which removes what has no name after the
grace, cannot meet an upload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from mainstem.storage.contract import Buffer

UPLOAD_AGE_SHARE = 0.5


class LateUpload(Exception):
    """An upload took so long that its object may be gone: it is made again under another name."""


class Claim(NamedTuple):
    """A shard was taken."""

    epoch: int
    node: bytes
    """Identity of the shard's log, the same for every owner."""
    generation: int
    """The first generation that this owner may use for files of the write-ahead log."""
    now_ms: int
    """The catalog's clock."""


class ShippedGroup(NamedTuple):
    """A commit group as it lies in a file of the write-ahead log: its bytes, or the object that has them."""

    sequence: int
    generation: int
    position: int
    data: Buffer | None
    key: str | None = None
    created_ms: int = 0
    """Of the object."""


class SharedFile(NamedTuple):
    """A finished file, and the object that holds it."""

    path: str
    """Below the data directory."""
    key: str
    size: int
    created_ms: int = 0


class ShardStatus(NamedTuple):
    """A shard, as an operator or a standby sees it."""

    shard: str
    epoch: int
    owner: str
    addresses: dict[str, str]
    """Where the owner listens, by protocol."""
    left_ms: int
    """Until its lease ends; below zero: it has ended."""
    groups: int
    files: int
    hands_over: bool


class ShardView(NamedTuple):
    """What a broker of the cluster sees of its shard."""

    owner: ShardStatus | None
    """None where nobody holds the lease."""
    brokers: dict[int, dict[str, str]]
    """Addresses by protocol of all that were heard of lately, by the broker's number."""


class Catalog(Protocol):
    """Orders, fences and names. One database with one clock."""

    def take(self, shard: str, owner: str, lease_ms: int) -> Claim | None:
        """Begin a new epoch, if the last lease has ended or was the same owner's, who must have begun anew.

        It waits for changes of the last epoch that are under way.
        """

    def renew(self, shard: str, epoch: int, lease_ms: int) -> bool:
        """Prolong the lease; answers whether an operator wants the shard to be handed over."""

    def release(self, shard: str, epoch: int) -> None:
        """End the lease now."""

    def append(self, shard: str, epoch: int, groups: Sequence[ShippedGroup]) -> None:
        """Add groups, all or none. Repeated, it writes again, so that it is never answered from what might be lost."""

    def groups(self, shard: str, after: int, limit: int) -> list[ShippedGroup]:
        """The next groups behind this one, in order."""

    def forget_groups(self, shard: str, epoch: int, last: int) -> None:
        """Drop groups up to this one; their objects become garbage."""

    def files(self, shard: str) -> list[SharedFile]:
        """All files."""

    def add_files(self, shard: str, epoch: int, files: Sequence[SharedFile]) -> None:
        """Name files, all or none; an object that had the name becomes garbage."""

    def remove_files(self, shard: str, epoch: int, paths: Sequence[str]) -> None:
        """Let files go; their objects become garbage."""

    def now_ms(self) -> int:
        """The catalog's clock."""

    def garbage(self, shard: str, grace_ms: int) -> list[str]:
        """Objects that have been garbage for longer than the grace."""

    def forget_garbage(self, shard: str, keys: Sequence[str]) -> None:
        """These objects are gone."""

    def named(self, shard: str) -> set[str]:
        """Every object that has a name, garbage included."""

    def announce(self, shard: str, epoch: int, addresses: dict[str, str]) -> None:
        """Say where the owner listens."""

    def close(self) -> None:
        """Let connections go."""


class ListedObject(NamedTuple):
    """What a listing says."""

    key: str
    modified_ms: int


class ObjectStore(Protocol):
    """Bytes by name."""

    def put(self, key: str, content: Iterable[bytes]) -> None:
        """Keep an object; the same again is harmless."""

    def get(self, key: str) -> bytes:
        """All of it."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of it, all within its size."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are gone already are no error."""

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """All objects whose name begins so."""


def object_key(shard: str, kind: str, created_ms: int, name: str) -> str:
    """A name for a new object. `name` must never have been used before."""
    return f"{shard}/{kind}/{created_ms:013x}-{name}"


def created_ms_of(key: str) -> int:
    """When an object was made, from its name; for ever young where that does not say."""
    try:
        return int(key.rpartition("/")[2].partition("-")[0], 16)
    except ValueError:
        return 1 << 62
