"""Manifests: what is written is read, and a following version loses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.tables.manifest import (
    FENCES_MAX,
    Gap,
    Manifest,
    TableFile,
    UnreadableManifest,
    decode_manifest,
    encode_manifest,
)

numbers = st.integers(0, 2**53)
texts = st.text(max_size=20)
files = st.builds(
    TableFile,
    path=texts.map(lambda text: f"day=2030-01-31/{text}"),
    rows=numbers,
    bytes=numbers,
    day=st.none() | texts,
    last_ms=st.none() | st.integers(-(2**50), 2**50),
    written_ms=numbers,
    layout=st.integers(0, 9),
)


@given(
    added=st.lists(files, max_size=8, unique_by=lambda file: file.path),
    ends=st.dictionaries(st.integers(0, 100), numbers, max_size=5),
    gaps=st.lists(st.builds(Gap, partition=numbers, start=numbers, end=numbers), max_size=3),
    fence=st.none() | st.tuples(texts, numbers),
)
def test_what_is_written_is_read(
    added: list[TableFile], ends: dict[int, int], gaps: list[Gap], fence: tuple[str, int] | None
) -> None:
    manifest = Manifest(0, "{}", topic="t", topic_id="i")
    manifest = manifest.followed_by(now_ms=5, added=added, ends=ends, gaps=gaps, fence=fence)
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert (manifest.version, manifest.rows, manifest.file_count) == (1, sum(file.rows for file in added), len(added))
    assert b'"files":[]' in encode_manifest(manifest).splitlines()[0]


@given(st.lists(files, min_size=1, max_size=8, unique_by=lambda file: file.path), st.data())
def test_removed_files_are_remembered_until_they_are_deleted(added: list[TableFile], data: st.DataObject) -> None:
    manifest = Manifest(0, "{}").followed_by(now_ms=1, added=added, ends={0: 7})
    gone = data.draw(st.sets(st.sampled_from([file.path for file in added])))
    after = manifest.followed_by(now_ms=2, removed=gone)
    assert {file.path for file in after.files} == {file.path for file in added} - gone
    assert {file.path for file in after.removed} == gone
    assert after.ends == {0: 7}
    assert after.followed_by(now_ms=3, deleted=gone).removed == ()


def test_fences_are_bounded_and_the_latest_stay() -> None:
    manifest = Manifest(0, "{}")
    for number in range(FENCES_MAX + 2):
        manifest = manifest.followed_by(now_ms=0, fence=(f"query {number}", number))
        manifest = manifest.followed_by(now_ms=0, fence=("query 1", number))
    assert len(manifest.fences) == FENCES_MAX
    assert manifest.fences["query 1"] == FENCES_MAX + 1
    assert "query 0" not in manifest.fences


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":1}', b'{"version":1,"schema":"","format":2}', b"\xff"])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableManifest):
        decode_manifest(content)


def test_half_a_manifest_is_refused() -> None:
    whole = encode_manifest(Manifest(0, "{}").followed_by(now_ms=0, added=[TableFile("a", 1, 1), TableFile("b", 1, 1)]))
    for end in range(len(whole) - 1):
        with pytest.raises(UnreadableManifest):
            decode_manifest(whole[:end])
