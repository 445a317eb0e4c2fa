"""Where a table lies: in a directory of this machine, or in an object store.

    data/day=2030-01-31/part-....parquet
    manifests/00000000000000000042.jsonl      the newest is the table; a few older ones are kept

On a disk, files are synced before a manifest names them, and a manifest appears whole under a name that nobody had: of two
writers one learns that the other was faster. Object stores show a file when it is complete, which is as good, but they let the
later of two writers win there; so one writer at a time is for the worker of pipelines to see to.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from mainstem.pipelines.errors import InvalidOption, PipelineError
from mainstem.pipelines.tables.manifest import Manifest, decode_manifest, encode_manifest

DATA, MANIFESTS = "data", "manifests"
SUFFIX = ".jsonl"
MANIFESTS_KEPT = 5
MANIFEST_BYTES_MAX = 1 << 30
SPARK_SCHEMES = {"s3": "s3a"}
"""What Spark calls an object store, where that is something else."""


class TableTaken(PipelineError):
    """Somebody else has written the next version of the table."""


class StoredFile(NamedTuple):
    """A file that lies in the directory of data."""

    path: str
    modified_s: float


class TableStore:
    """One table's place. Picklable: executors write there too."""

    def __init__(self, location: str) -> None:
        where = urlsplit(location)
        self.location = location.rstrip("/")
        self.is_local = where.scheme in ("", "file")
        self._scheme = where.scheme
        if self.is_local:
            self._base = (unquote(where.path) if where.scheme else location).rstrip("/")
            if not self._base.startswith("/"):
                raise InvalidOption(f"The place of a table must be an absolute path or a URI, not {location!r}.")
        else:
            self._base = f"{where.netloc}{where.path}".rstrip("/")

    # Files

    def open_data(self, path: str) -> Any:
        """A new file to write to; what it is called has been made up for it."""
        full = f"{self._base}/{DATA}/{path}"
        if self.is_local:
            Path(full).parent.mkdir(parents=True, exist_ok=True)
            return open(full, "xb")  # noqa: PTH123 - closed by close_data
        return self._files().open_output_stream(full)

    def close_data(self, path: str, stream: Any) -> None:
        """All of it is durable when this returns."""
        if not self.is_local:
            stream.close()
            return
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()
        directory = Path(f"{self._base}/{DATA}/{path}").parent
        while True:
            _sync_directory(directory)
            if str(directory) == self._base:
                return
            directory = directory.parent

    def read_data(self, path: str) -> Any:
        """A file to read from."""
        return self._files().open_input_file(f"{self._base}/{DATA}/{path}")

    def size_of(self, path: str) -> int:
        """In bytes."""
        return int(self._files().get_file_info(f"{self._base}/{DATA}/{path}").size)

    def delete_data(self, path: str) -> None:
        """One that is gone already is not missed."""
        try:
            self._files().delete_file(f"{self._base}/{DATA}/{path}")
        except FileNotFoundError:
            pass

    def list_data(self) -> Iterator[StoredFile]:
        """Whatever lies there, the table's or not."""
        base = f"{self._base}/{DATA}"
        chosen = pafs.FileSelector(base, allow_not_found=True, recursive=True)
        for info in self._files().get_file_info(chosen):
            if info.type == pafs.FileType.File and info.mtime_ns is not None:
                yield StoredFile(info.path.removeprefix(f"{base}/"), info.mtime_ns / 1e9)

    def spark_path(self, path: str = "") -> str:
        """As Spark's own reader is told."""
        below = f"{self._base}/{DATA}/{path}".rstrip("/")
        if self.is_local:
            return f"file://{below}"
        return f"{SPARK_SCHEMES.get(self._scheme, self._scheme)}://{below}"

    # Manifests

    def versions(self) -> list[int]:
        """Those that are kept, in order."""
        chosen = pafs.FileSelector(f"{self._base}/{MANIFESTS}", allow_not_found=True)
        names = [info.base_name for info in self._files().get_file_info(chosen)]
        return sorted(
            int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdigit()
        )

    def latest(self) -> Manifest | None:
        """The table as it is now; None: there is none yet."""
        while versions := self.versions():
            try:
                return self.read(versions[-1])
            except FileNotFoundError:
                continue  # collected since: there are newer ones
        return None

    def read(self, version: int) -> Manifest:
        """One version."""
        with self._files().open_input_stream(self._manifest(version)) as stream:
            return decode_manifest(stream.read(MANIFEST_BYTES_MAX))

    def commit(self, manifest: Manifest) -> None:
        """From now on this is the table. Raises TableTaken: then nothing has changed."""
        content, target = encode_manifest(manifest), self._manifest(manifest.version)
        if self.is_local:
            self._commit_locally(content, Path(target))
        else:
            if self._files().get_file_info(target).type != pafs.FileType.NotFound:
                raise TableTaken(_taken(self.location, manifest.version))
            with self._files().open_output_stream(target) as stream:
                stream.write(content)
        for version in self.versions()[:-MANIFESTS_KEPT]:
            self._files().delete_file(self._manifest(version))

    def _commit_locally(self, content: bytes, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # unlike a renaming, a link takes nobody's place
            os.link(draft, target)
        except FileExistsError:
            raise TableTaken(_taken(self.location, int(target.name.removesuffix(SUFFIX)))) from None
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(target.parent)
        _sync_directory(target.parent.parent)

    def _manifest(self, version: int) -> str:
        return f"{self._base}/{MANIFESTS}/{version:020}{SUFFIX}"

    def _files(self) -> pafs.FileSystem:
        if self.is_local:
            return pafs.LocalFileSystem()
        try:
            return pafs.FileSystem.from_uri(self.location)[0]
        except (pa.ArrowException, ValueError) as fact:
            raise InvalidOption(f"Tables cannot lie at {self.location!r}: {fact}") from None


def _taken(location: str, version: int) -> str:
    return (
        f"Version {version} of the table at {location} was written by somebody else meanwhile: there may be one writer."
    )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
