"""The catalog in PostgreSQL: one fenced statement for each change.

The fence. Every change reads the shard's row `FOR SHARE` where it still has the caller's epoch; to take a shard is an update of
that row. So taking waits for changes that are under way, and those that come later find no row. (`FOR KEY SHARE` would not do:
an update that leaves the key alone does not wait for it.) What a new owner reads after it took the shard is therefore all there
will ever be of the epochs before.

A repeated append writes the row again, though nothing changes: where a standby must confirm, that write waits for the first
one, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from mainstem.model.errors import DiskError, OwnershipLost, StoreUnreachable, UnsupportedFormat
from mainstem.storage.shared.ports import (
    UPLOAD_AGE_SHARE,
    Claim,
    LateUpload,
    ShardStatus,
    ShardView,
    SharedFile,
    ShippedGroup,
)

T = TypeVar("T")

SEEN_SECONDS = 10
"""A broker that was silent for longer is not shown to clients."""
FORGOTTEN_SECONDS = 86_400
"""A broker that was silent for longer loses its number."""

SCHEMA_VERSION = 2
SERVER_VERSION_MIN = 140_000
CONNECT_SECONDS_MAX = 3
STATEMENT_SECONDS_MAX = 10
SCHEMA_LOCK = 0x6D61696E
"""Of `pg_advisory_xact_lock`: brokers that start together make the tables once."""

SCHEMA = """
create schema if not exists mainstem;
create table if not exists mainstem.about (version int not null);
create table if not exists mainstem.shards (
    shard text primary key,
    epoch bigint not null default 0,
    node bytea not null default decode(replace(gen_random_uuid()::text, '-', ''), 'hex'),
    generation bigint not null default 0,
    owner text not null default '',
    addresses jsonb not null default '{}',
    expires timestamptz not null default '-infinity',
    hands_over boolean not null default false);
create table if not exists mainstem.groups (
    shard text not null, sequence bigint not null, epoch bigint not null, generation bigint not null,
    place bigint not null, data bytea, key text, replays int not null default 0,
    primary key (shard, sequence));
alter table mainstem.groups alter column data set storage external;
create table if not exists mainstem.files (
    shard text not null, path text not null, key text not null, size bigint not null, primary key (shard, path));
create table if not exists mainstem.garbage (
    shard text not null, key text not null, since timestamptz not null default clock_timestamp(), primary key (shard, key));
"""

UPGRADES = {
    1: """
create table mainstem.brokers (
    shard text not null, number int not null, name text not null, addresses jsonb not null default '{}',
    seen timestamptz not null default clock_timestamp(), primary key (shard, number), unique (shard, name));
"""
}
"""What makes tables of a version into those of the next. `SCHEMA` makes those of version 1."""

# The statements are joined from constants of this module alone.
_FENCE = "with f as (select 1 from mainstem.shards where shard = %(shard)s and epoch = %(epoch)s for share)"

_TAKE = """
update mainstem.shards set epoch = epoch + 1, owner = %(owner)s, addresses = '{}', hands_over = false,
    generation = greatest(generation, (select max(generation) from mainstem.groups where shard = %(shard)s)) + 1,
    expires = clock_timestamp() + %(lease)s * interval '1 ms'
where shard = %(shard)s and (expires < clock_timestamp() or owner = %(owner)s)
returning epoch, node, generation, (extract(epoch from clock_timestamp()) * 1000)::bigint"""

_RENEW = """
update mainstem.shards set expires = clock_timestamp() + %(lease)s * interval '1 ms'
where shard = %(shard)s and epoch = %(epoch)s returning hands_over"""

_APPEND = f"""{_FENCE}
insert into mainstem.groups (shard, sequence, epoch, generation, place, data, key)
select %(shard)s, g.sequence, %(epoch)s, g.generation, g.place, g.data, g.key
from f, unnest(%(sequences)s::bigint[], %(generations)s::bigint[], %(places)s::bigint[], %(datas)s::bytea[], %(keys)s::text[])
    as g (sequence, generation, place, data, key)
where %(oldest)s::bigint is null
    or extract(epoch from clock_timestamp()) * 1000 - %(oldest)s::bigint < %(age)s
    or exists (select 1 from mainstem.groups k where k.shard = %(shard)s and k.sequence = g.sequence and k.key = g.key)
on conflict (shard, sequence) do update set replays = groups.replays + 1 where groups.epoch = excluded.epoch
returning sequence"""

_FORGET = f"""{_FENCE},
d as (delete from mainstem.groups using f where shard = %(shard)s and sequence <= %(last)s returning key, generation),
s as (insert into mainstem.garbage (shard, key) select %(shard)s, key from d where key is not null on conflict do nothing)
select count(*), max(d.generation) from f left join d on true having count(f) > 0"""

_ADD_FILES = f"""{_FENCE},
n as (select * from unnest(%(paths)s::text[], %(keys)s::text[], %(sizes)s::bigint[]) as n (path, key, size)),
o as (insert into mainstem.garbage (shard, key)
    select x.shard, x.key from f, mainstem.files x join n using (path) where x.shard = %(shard)s and x.key <> n.key
    on conflict do nothing)
insert into mainstem.files (shard, path, key, size) select %(shard)s, n.path, n.key, n.size from f, n
where extract(epoch from clock_timestamp()) * 1000 - %(oldest)s::bigint < %(age)s
on conflict (shard, path) do update set key = excluded.key, size = excluded.size returning path"""

_REMOVE_FILES = f"""{_FENCE},
d as (delete from mainstem.files using f where shard = %(shard)s and path = any(%(paths)s::text[]) returning key),
s as (insert into mainstem.garbage (shard, key) select %(shard)s, key from d on conflict do nothing)
select count(*) from f"""


class PostgresCatalog:
    """The catalog. Each thread that calls has a connection of its own."""

    def __init__(self, address: str, grace_ms: int) -> None:
        try:
            self._options = conninfo_to_dict(address)
        except psycopg.Error as error:
            raise DiskError(f"cluster.database is no address of PostgreSQL: {error}") from error
        self._options.setdefault("connect_timeout", str(CONNECT_SECONDS_MAX))
        self._options.setdefault("target_session_attrs", "read-write")
        self._options.setdefault("application_name", "mainstem")
        for name, value in (("keepalives_idle", 5), ("keepalives_interval", 2), ("keepalives_count", 2)):
            self._options.setdefault(name, str(value))
        self._options.setdefault("tcp_user_timeout", str(STATEMENT_SECONDS_MAX * 1000))
        self._age_ms = int(UPLOAD_AGE_SHARE * grace_ms)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[TupleRow]] = []
        self._system: tuple[str, int] | None = None
        """Identity and timeline of the database that was seen first."""

    # Connections

    def _connection(self) -> psycopg.Connection[TupleRow]:
        connection: psycopg.Connection[TupleRow] | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.closed:
            return connection
        connection = psycopg.connect(**self._options, autocommit=True)  # type: ignore[arg-type]
        try:
            connection.execute(f"set statement_timeout = '{STATEMENT_SECONDS_MAX}s'")
            self._check_system(connection)
        except BaseException:
            connection.close()
            raise
        self._local.connection = connection
        with self._lock:
            self._connections = [known for known in self._connections if not known.closed]
            self._connections.append(connection)
        return connection

    def _check_system(self, connection: psycopg.Connection[TupleRow]) -> None:
        """A primary that was left behind by a fail-over must not be written to, though it takes writes."""
        row = connection.execute(
            "select (select system_identifier::text from pg_control_system()), "
            "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
        ).fetchone()
        assert row is not None
        found = (str(row[0]), int(row[1]))
        with self._lock:
            if self._system is None:
                self._system = found
            seen = self._system
            if found[0] != seen[0]:
                raise StoreUnreachable("another database than before answers at cluster.database")
            if found[1] < seen[1]:
                raise StoreUnreachable(f"a database of the older timeline {found[1]} answers; {seen[1]} was seen")
            self._system = found

    def run(self, statement: str, values: dict[str, Any] | None = None) -> list[TupleRow]:
        """One statement; answers its rows."""
        try:
            cursor = self._connection().execute(statement, values)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.OperationalError as error:
            self._drop()
            raise StoreUnreachable(f"PostgreSQL: {_one_line(error)}") from error
        except psycopg.Error as error:
            self._drop()
            # Also what a database says that is going down, or that has become read-only.
            if isinstance(error, (psycopg.InternalError, psycopg.InterfaceError)):
                raise StoreUnreachable(f"PostgreSQL: {_one_line(error)}") from error
            raise DiskError(f"PostgreSQL refuses: {_one_line(error)}") from error

    def system(self) -> tuple[str, int]:
        """Identity and timeline of the database."""
        self._read(self._connection)
        with self._lock:
            assert self._system is not None
            return self._system

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Let all connections go."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    # Tables

    def make_tables(self, shard: str) -> None:
        """Make or upgrade what is not as it must be. Raises UnsupportedFormat for newer tables, or an old server."""
        self._read(self._make_tables, shard)

    def _make_tables(self, shard: str) -> None:
        connection = self._connection()
        server = connection.info.server_version
        if server < SERVER_VERSION_MIN:
            raise UnsupportedFormat(f"PostgreSQL {server // 10_000} is too old: 14 or later is needed")
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
            exists = connection.execute("select to_regclass('mainstem.about')").fetchone()
            if exists is None or exists[0] is None:
                connection.execute(SCHEMA)
                connection.execute("insert into mainstem.about values (1)")
            row = connection.execute("select version from mainstem.about").fetchone()
            version = 0 if row is None else int(row[0])
            if not 0 < version <= SCHEMA_VERSION:
                raise UnsupportedFormat(
                    f"the tables in PostgreSQL have version {version}; this program knows versions up to {SCHEMA_VERSION}"
                )
            for upgrade in range(version, SCHEMA_VERSION):
                connection.execute(UPGRADES[upgrade])
                connection.execute("update mainstem.about set version = %s", (upgrade + 1,))
            connection.execute("insert into mainstem.shards (shard) values (%s) on conflict do nothing", (shard,))

    def _read(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return work(*arguments)
        except psycopg.OperationalError as error:
            self._drop()
            raise StoreUnreachable(f"PostgreSQL: {_one_line(error)}") from error
        except psycopg.Error as error:
            self._drop()
            raise DiskError(f"PostgreSQL refuses: {_one_line(error)}") from error

    # Ownership

    def take(self, shard: str, owner: str, lease_ms: int) -> Claim | None:
        """Begin a new epoch, if the last lease has ended."""
        rows = self.run(_TAKE, {"shard": shard, "owner": owner, "lease": lease_ms})
        if not rows:
            return None
        epoch, node, generation, now_ms = rows[0]
        return Claim(epoch, bytes(node), generation, now_ms)

    def found(self, shard: str, epoch: int, node: bytes, generation: int) -> None:
        """Give a shard that holds nothing the identity of a log that is moved there, and the generations it has used."""
        rows = self.run(
            "update mainstem.shards set node = %(node)s, generation = greatest(generation, %(generation)s) "
            "where shard = %(shard)s and epoch = %(epoch)s returning 1",
            {"shard": shard, "epoch": epoch, "node": node, "generation": generation},
        )
        if not rows:
            self._refuse(shard, epoch, may_be_late=False)

    def renew(self, shard: str, epoch: int, lease_ms: int) -> bool:
        """Prolong the lease."""
        rows = self.run(_RENEW, {"shard": shard, "epoch": epoch, "lease": lease_ms})
        if not rows:
            raise OwnershipLost(f"term {epoch} of shard {shard} is over")
        return bool(rows[0][0])

    def release(self, shard: str, epoch: int) -> None:
        """End the lease now."""
        self.run(
            "update mainstem.shards set expires = '-infinity', hands_over = false "
            "where shard = %(shard)s and epoch = %(epoch)s",
            {"shard": shard, "epoch": epoch},
        )

    def announce(self, shard: str, epoch: int, addresses: dict[str, str]) -> None:
        """Say where the owner listens."""
        self.run(
            "update mainstem.shards set addresses = %(addresses)s where shard = %(shard)s and epoch = %(epoch)s",
            {"shard": shard, "epoch": epoch, "addresses": Jsonb(addresses)},
        )

    def ask_hand_over(self, shard: str) -> bool:
        """Have the owner let the shard go; False when nobody owns it."""
        return bool(
            self.run(
                "update mainstem.shards set hands_over = true "
                "where shard = %(shard)s and expires > clock_timestamp() returning 1",
                {"shard": shard},
            )
        )

    def status(self) -> list[ShardStatus]:
        """All shards."""
        rows = self.run(
            "select s.shard, s.epoch, s.owner, s.addresses, "
            "case when s.expires = '-infinity' then -1 "
            "else (extract(epoch from s.expires - clock_timestamp()) * 1000)::bigint end, "
            "(select count(*) from mainstem.groups g where g.shard = s.shard), "
            "(select count(*) from mainstem.files f where f.shard = s.shard), s.hands_over "
            "from mainstem.shards s order by s.shard"
        )
        return [ShardStatus(*row) for row in rows]

    # Brokers

    def register(self, shard: str, name: str) -> int:
        """The number of a broker: the one it had before, or the lowest that is free."""
        return self._read(self._register, shard, name)

    def _register(self, shard: str, name: str) -> int:
        connection = self._connection()
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
            connection.execute(
                "delete from mainstem.brokers where shard = %s and name <> %s "
                "and seen < clock_timestamp() - %s * interval '1 s'",
                (shard, name, FORGOTTEN_SECONDS),
            )
            rows = connection.execute("select number, name from mainstem.brokers where shard = %s", (shard,)).fetchall()
            known: dict[str, int] = {name: number for number, name in rows}
            number = known.get(name) or next(n for n in range(1, len(known) + 2) if n not in known.values())
            connection.execute(
                "insert into mainstem.brokers (shard, number, name) values (%s, %s, %s) "
                "on conflict (shard, name) do update set seen = clock_timestamp()",
                (shard, number, name),
            )
        return number

    def brokers(self, shard: str) -> dict[str, tuple[int, int]]:
        """Names of the brokers that were heard of lately, each with its number and how many milliseconds ago that was."""
        rows = self.run(
            "select name, number, (extract(epoch from clock_timestamp() - seen) * 1000)::bigint from mainstem.brokers "
            "where shard = %(shard)s and seen > clock_timestamp() - %(seen)s * interval '1 s'",
            {"shard": shard, "seen": SEEN_SECONDS},
        )
        return {name: (number, silent_ms) for name, number, silent_ms in rows}

    def look(self, shard: str, number: int, addresses: dict[str, str]) -> ShardView:
        """Say that a broker is here, and where it listens; answers who else is, and who owns the shard."""
        values = {"shard": shard, "number": number, "addresses": Jsonb(addresses)}
        self.run(
            "update mainstem.brokers set seen = clock_timestamp(), addresses = %(addresses)s "
            "where shard = %(shard)s and number = %(number)s",
            values,
        )
        rows = self.run(
            "select number, addresses from mainstem.brokers where shard = %(shard)s "
            "and seen > clock_timestamp() - %(seen)s * interval '1 s' order by number",
            {"shard": shard, "seen": SEEN_SECONDS},
        )
        brokers: dict[int, dict[str, str]] = dict(rows)
        owners = [status for status in self.status() if status.shard == shard and status.left_ms > 0]
        return ShardView(owners[0] if owners else None, brokers)

    # Groups

    def append(self, shard: str, epoch: int, groups: Sequence[ShippedGroup]) -> None:
        """Add groups, all or none."""
        created = [group.created_ms for group in groups if group.key is not None]
        values = {
            "shard": shard,
            "epoch": epoch,
            "sequences": [group.sequence for group in groups],
            "generations": [group.generation for group in groups],
            "places": [group.position for group in groups],
            "datas": [group.data for group in groups],
            "keys": [group.key for group in groups],
            "oldest": min(created, default=None),
            "age": self._age_ms,
        }
        rows = self.run(_APPEND, values)
        if len(rows) != len(groups):
            self._refuse(shard, epoch, may_be_late=bool(created) and not rows)

    def _refuse(self, shard: str, epoch: int, *, may_be_late: bool) -> None:
        """A statement changed nothing: by its age, or by the fence."""
        if may_be_late:
            rows = self.run("select epoch from mainstem.shards where shard = %(shard)s", {"shard": shard})
            if rows and rows[0][0] == epoch:
                raise LateUpload("an object was to be named too late")
        raise OwnershipLost(f"term {epoch} of shard {shard} is over")

    def groups(self, shard: str, after: int, limit: int) -> list[ShippedGroup]:
        """The next groups."""
        rows = self.run(
            "select sequence, generation, place, data, key from mainstem.groups "
            "where shard = %(shard)s and sequence > %(after)s order by sequence limit %(limit)s",
            {"shard": shard, "after": after, "limit": limit},
        )
        return [ShippedGroup(*row) for row in rows]

    def forget_groups(self, shard: str, epoch: int, last: int) -> None:
        """Drop groups. The shard remembers the newest generation by itself: other brokers must not use it again."""
        values = {"shard": shard, "epoch": epoch, "last": last}
        rows = self.run(_FORGET, values)
        if not rows:
            self._refuse(shard, epoch, may_be_late=False)
        if rows[0][1] is not None:
            self.run(
                "update mainstem.shards set generation = greatest(generation, %(generation)s) where shard = %(shard)s",
                {"shard": shard, "generation": rows[0][1]},
            )

    # Files

    def files(self, shard: str) -> list[SharedFile]:
        """All files."""
        rows = self.run("select path, key, size from mainstem.files where shard = %(shard)s", {"shard": shard})
        return [SharedFile(*row) for row in rows]

    def add_files(self, shard: str, epoch: int, files: Sequence[SharedFile]) -> None:
        """Name files, all or none."""
        if not files:
            return
        values = {
            "shard": shard,
            "epoch": epoch,
            "paths": [file.path for file in files],
            "keys": [file.key for file in files],
            "sizes": [file.size for file in files],
            "oldest": min(file.created_ms for file in files),
            "age": self._age_ms,
        }
        if len(self.run(_ADD_FILES, values)) != len(files):
            self._refuse(shard, epoch, may_be_late=True)

    def remove_files(self, shard: str, epoch: int, paths: Sequence[str]) -> None:
        """Let files go."""
        rows = self.run(_REMOVE_FILES, {"shard": shard, "epoch": epoch, "paths": list(paths)})
        if rows[0][0] == 0:
            self._refuse(shard, epoch, may_be_late=False)

    # Garbage

    def now_ms(self) -> int:
        """The clock of PostgreSQL."""
        return int(self.run("select (extract(epoch from clock_timestamp()) * 1000)::bigint")[0][0])

    def garbage(self, shard: str, grace_ms: int) -> list[str]:
        """What is due."""
        rows = self.run(
            "select key from mainstem.garbage where shard = %(shard)s "
            "and since < clock_timestamp() - %(grace)s * interval '1 ms'",
            {"shard": shard, "grace": grace_ms},
        )
        return [row[0] for row in rows]

    def forget_garbage(self, shard: str, keys: Sequence[str]) -> None:
        """These objects are gone."""
        self.run(
            "delete from mainstem.garbage where shard = %(shard)s and key = any(%(keys)s::text[])",
            {"shard": shard, "keys": list(keys)},
        )

    def named(self, shard: str) -> set[str]:
        """Every object that has a name."""
        rows = self.run(
            "select key from mainstem.groups where shard = %(shard)s and key is not null "
            "union all select key from mainstem.files where shard = %(shard)s "
            "union all select key from mainstem.garbage where shard = %(shard)s",
            {"shard": shard},
        )
        return {row[0] for row in rows}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
