"""Which files are the table: one small text that takes the place of the one before, all or nothing.

The first line has everything but the files, so that who wants to know how a table is reads no further. Then comes a line for
each file. How far the table reaches stands in the same text as the files that hold it: that is all of its exactness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mainstem.pipelines.errors import PipelineError

FORMAT = 1
FENCES_MAX = 1_000
"""Queries whose last batch is remembered; the oldest is forgotten first."""
GAPS_MAX = 1_000


class UnreadableManifest(PipelineError):
    """What lies there is not a manifest, or one of a later version of this program."""


class TableFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Parquet file."""

    path: str
    """Below the table's directory of data, its parts divided by slashes."""
    rows: int
    bytes: int
    day: str | None = None
    """Of all of its rows, in UTC; None: they are of no day, or the table is not kept by day."""
    last_ms: int | None = None
    """Time of its youngest row; None: unknown."""
    written_ms: int = 0
    layout: int = 0
    """Files of one number have the same columns."""


class Removed(msgspec.Struct, frozen=True):
    """A file that is not the table's any more, and is deleted when nobody should read it still."""

    path: str
    removed_ms: int


class Gap(msgspec.Struct, frozen=True):
    """Offsets that were gone from the log before the table had them."""

    partition: int
    start: int
    end: int


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as of one moment."""

    version: int
    """Of the table: each is one above the one before."""
    schema: str
    """Of its rows, `day` included: Spark's JSON."""
    format: int = FORMAT
    layout: int = 0
    """Of the files that are written now."""
    topic: str = ""
    topic_id: str = ""
    written_ms: int = 0
    ends: dict[int, int] = {}
    """By partition: all before this offset is in the files, all from it on is in the log."""
    gaps: tuple[Gap, ...] = ()
    fences: dict[str, int] = {}
    """By query: the last of its batches that is in the files."""
    removed: tuple[Removed, ...] = ()
    rows: int = 0
    bytes: int = 0
    file_count: int = 0
    files: tuple[TableFile, ...] = ()

    def followed_by(
        self,
        *,
        now_ms: int,
        added: Iterable[TableFile] = (),
        removed: Iterable[str] = (),
        deleted: Iterable[str] = (),
        ends: dict[int, int] | None = None,
        gaps: Sequence[Gap] = (),
        fence: tuple[str, int] | None = None,
        schema: str | None = None,
        layout: int | None = None,
    ) -> Manifest:
        """The next version: some files more, some fewer, and perhaps further."""
        gone, forgotten = set(removed), set(deleted)
        files = (*(file for file in self.files if file.path not in gone), *added)
        fences = dict(self.fences)
        if fence is not None:
            fences.pop(fence[0], None)
            fences[fence[0]] = fence[1]
            for query in list(fences)[: max(len(fences) - FENCES_MAX, 0)]:
                del fences[query]
        left = tuple(old for old in self.removed if old.path not in forgotten)
        return Manifest(
            version=self.version + 1,
            schema=self.schema if schema is None else schema,
            layout=self.layout if layout is None else layout,
            topic=self.topic,
            topic_id=self.topic_id,
            written_ms=now_ms,
            ends=self.ends if ends is None else {**self.ends, **ends},
            gaps=(*self.gaps, *gaps)[-GAPS_MAX:],
            fences=fences,
            removed=(*left, *(Removed(path, now_ms) for path in sorted(gone))),
            rows=sum(file.rows for file in files),
            bytes=sum(file.bytes for file in files),
            file_count=len(files),
            files=files,
        )


_encoder = msgspec.json.Encoder()
_head_decoder = msgspec.json.Decoder(Manifest, strict=False)
_file_decoder = msgspec.json.Decoder(TableFile)


def encode_manifest(manifest: Manifest) -> bytes:
    """Lines of JSON."""
    head = msgspec.structs.replace(manifest, files=())
    return b"\n".join([_encoder.encode(head), *map(_encoder.encode, manifest.files), b""])


def decode_manifest(content: bytes) -> Manifest:
    """Raises UnreadableManifest."""
    first, *lines = content.split(b"\n")
    try:
        head = _head_decoder.decode(first)
        files = tuple(_file_decoder.decode(line) for line in lines if line)
    except (msgspec.DecodeError, UnicodeDecodeError) as fact:
        raise UnreadableManifest(f"A manifest of the table cannot be read: {fact}.") from None
    if head.format != FORMAT or head.file_count != len(files):
        what = f"is of format {head.format}" if head.format != FORMAT else "is not whole"
        raise UnreadableManifest(f"A manifest of the table {what}: a later version of mainstem may read it.")
    return msgspec.structs.replace(head, files=files)
