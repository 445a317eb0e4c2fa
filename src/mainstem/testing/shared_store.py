"""A catalog and an object store in memory, with the faults of real ones: lost replies, refusals, delays by the caller's order.

Time is the simulated clock's: the catalog has one clock, whatever its callers believe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from mainstem.model.errors import OwnershipLost, StoreUnreachable
from mainstem.storage.shared.ports import (
    UPLOAD_AGE_SHARE,
    Claim,
    LateUpload,
    ListedObject,
    SharedFile,
    ShippedGroup,
)
from mainstem.testing.clock import SimulatedClock


class SimulatedStore:
    """Both halves of a shared store for any number of shards; `catalog` and `objects` are faces of it."""

    def __init__(self, rng: Random, clock: SimulatedClock, grace_ms: int = 3_600_000) -> None:
        self.rng = rng
        self.clock = clock
        self.grace_ms = grace_ms
        self.fault_share = 0.0
        """How often a call fails, before or after it had its effect."""
        self.read_fault_share = 0.0
        """How often a read of an object fails."""
        self.faults = 0
        self.shards: dict[str, SimulatedShard] = {}
        self.content: dict[str, tuple[bytes, int]] = {}
        """Key -> bytes, and when they were put."""
        self.checks_epoch = True
        """A negative control switches the fence off."""

    def copy(self) -> SimulatedStore:
        """An independent copy without faults, whose leases have ended."""
        after = SimulatedStore(Random(0), self.clock, self.grace_ms)  # noqa: S311
        after.content = dict(self.content)
        after.shards = {name: shard.copy() for name, shard in self.shards.items()}
        return after

    def shard(self, name: str) -> SimulatedShard:
        """One shard; made when it is first named."""
        return self.shards.setdefault(name, SimulatedShard())

    def begin(self) -> bool:
        """A call begins: it may fail here, or after its effect (then True is answered)."""
        if self.rng.random() >= self.fault_share:
            return False
        self.faults += 1
        if self.rng.random() < 0.5:
            raise StoreUnreachable("503 by the seed")
        return True

    def end(self, is_lost: bool) -> None:
        """A call has had its effect: its reply may be lost."""
        if is_lost:
            raise StoreUnreachable("a reply was lost by the seed")

    def check(self, name: str, epoch: int) -> SimulatedShard:
        """The fence."""
        shard = self.shard(name)
        if self.checks_epoch and shard.epoch != epoch:
            raise OwnershipLost(f"term {epoch} of {name} is over")
        return shard

    def check_age(self, created_ms: int) -> None:
        """No object is named late."""
        if self.clock.now_ms() - created_ms > UPLOAD_AGE_SHARE * self.grace_ms:
            raise LateUpload("by the simulated clock")


class SimulatedShard:
    """What the catalog knows of a shard."""

    def __init__(self) -> None:
        self.epoch = 0
        self.until_ms = -1
        self.owner = ""
        self.generation = 0
        self.hands_over = False
        self.groups: dict[int, tuple[ShippedGroup, int]] = {}
        """Sequence -> group and epoch."""
        self.files: dict[str, SharedFile] = {}
        self.garbage: dict[str, int] = {}

    def copy(self) -> SimulatedShard:
        """Independent, and free to be taken."""
        after = SimulatedShard()
        after.epoch, after.generation = self.epoch, self.generation
        after.groups, after.files, after.garbage = dict(self.groups), dict(self.files), dict(self.garbage)
        return after


class SimulatedCatalog:
    """The catalog's face."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    def take(self, shard: str, owner: str, lease_ms: int) -> Claim | None:
        """Begin a new epoch."""
        lost = self._store.begin()
        now = self._store.clock.now_ms()
        state = self._store.shard(shard)
        if state.until_ms > now and state.owner != owner:
            return None
        state.owner = owner
        state.epoch += 1
        state.until_ms = now + lease_ms
        state.generation = max(state.generation, *(g.generation for g, _ in state.groups.values()), 0) + 1
        state.hands_over = False
        self._store.end(lost)
        return Claim(state.epoch, b"simulated shard!", state.generation, now)

    def renew(self, shard: str, epoch: int, lease_ms: int) -> bool:
        """Prolong the lease."""
        lost = self._store.begin()
        state = self._store.check(shard, epoch)
        state.until_ms = self._store.clock.now_ms() + lease_ms
        self._store.end(lost)
        return state.hands_over

    def release(self, shard: str, epoch: int) -> None:
        """End the lease."""
        self._store.check(shard, epoch).until_ms = -1

    def append(self, shard: str, epoch: int, groups: Sequence[ShippedGroup]) -> None:
        """Add groups."""
        lost = self._store.begin()
        state = self._store.check(shard, epoch)
        for group in groups:
            known = state.groups.get(group.sequence)
            if known is not None and self._store.checks_epoch and known[1] != epoch:
                raise OwnershipLost(f"group {group.sequence} is another owner's")
            if group.key is not None and known is None:
                self._store.check_age(group.created_ms)
        for group in groups:
            state.groups[group.sequence] = (group, epoch)
        self._store.end(lost)

    def groups(self, shard: str, after: int, limit: int) -> list[ShippedGroup]:
        """The next groups."""
        groups = self._store.shard(shard).groups
        return [groups[number][0] for number in sorted(number for number in groups if number > after)[:limit]]

    def forget_groups(self, shard: str, epoch: int, last: int) -> None:
        """Drop groups."""
        lost = self._store.begin()
        state = self._store.check(shard, epoch)
        for number in [number for number in state.groups if number <= last]:
            group, _ = state.groups.pop(number)
            state.generation = max(state.generation, group.generation)
            if group.key is not None:
                state.garbage[group.key] = self._store.clock.now_ms()
        self._store.end(lost)

    def files(self, shard: str) -> list[SharedFile]:
        """All files."""
        return list(self._store.shard(shard).files.values())

    def add_files(self, shard: str, epoch: int, files: Sequence[SharedFile]) -> None:
        """Name files."""
        lost = self._store.begin()
        state = self._store.check(shard, epoch)
        for file in files:
            self._store.check_age(file.created_ms)
        for file in files:
            known = state.files.get(file.path)
            if known is not None and known.key != file.key:
                state.garbage[known.key] = self._store.clock.now_ms()
            state.files[file.path] = file
        self._store.end(lost)

    def remove_files(self, shard: str, epoch: int, paths: Sequence[str]) -> None:
        """Let files go."""
        lost = self._store.begin()
        state = self._store.check(shard, epoch)
        for path in paths:
            if (file := state.files.pop(path, None)) is not None:
                state.garbage[file.key] = self._store.clock.now_ms()
        self._store.end(lost)

    def now_ms(self) -> int:
        """The clock."""
        return self._store.clock.now_ms()

    def garbage(self, shard: str, grace_ms: int) -> list[str]:
        """What is due."""
        due = self._store.clock.now_ms() - grace_ms
        return [key for key, since in self._store.shard(shard).garbage.items() if since < due]

    def forget_garbage(self, shard: str, keys: Sequence[str]) -> None:
        """Gone."""
        for key in keys:
            self._store.shard(shard).garbage.pop(key, None)

    def named(self, shard: str) -> set[str]:
        """All names."""
        state = self._store.shard(shard)
        groups = {group.key for group, _ in state.groups.values() if group.key is not None}
        return groups | {file.key for file in state.files.values()} | set(state.garbage)

    def announce(self, shard: str, epoch: int, addresses: dict[str, str]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is held."""


class SimulatedObjects:
    """The object store's face."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    def put(self, key: str, content: Iterable[bytes]) -> None:
        """Keep an object."""
        lost = self._store.begin()
        self._store.content[key] = (b"".join(content), self._store.clock.now_ms())
        self._store.end(lost)

    def get(self, key: str) -> bytes:
        """All of it."""
        return self._store.content[key][0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of it."""
        if self._store.rng.random() < self._store.read_fault_share:
            raise StoreUnreachable("a read failed by the seed")
        return self._store.content[key][0][start : start + length]

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects."""
        for key in keys:
            self._store.content.pop(key, None)

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """All that begin so."""
        for key, (_, put_ms) in sorted(self._store.content.items()):
            if key.startswith(prefix):
                yield ListedObject(key, put_ms)
