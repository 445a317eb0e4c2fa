"""Batches that other implementations built (tests/vectors/README.md): read, and where uncompressed, written alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainstem.wire import record_batch as rb
from mainstem.wire.compression import Compression

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "record_batches.json").read_text(encoding="utf-8"))
CASES = VECTORS["cases"]


def content_of(text: str | None) -> bytes | None:
    if text is None:
        return None
    pattern, _, times = text.partition("*")
    return bytes.fromhex(pattern) * int(times or 1)


def records_of(case: dict[str, Any]) -> list[rb.Record]:
    return [
        rb.Record(
            offset,
            timestamp,
            content_of(key),
            content_of(value),
            tuple((name, content_of(content)) for name, content in headers),
        )
        for offset, timestamp, key, value, headers in case["records"]
    ]


@pytest.mark.parametrize("vector", VECTORS["batches"], ids=lambda v: f"{v['source']}: {v['case']}: {v['codec']}")
def test_batch_of_another_implementation(vector: dict[str, str]) -> None:
    case = CASES[vector["case"]]
    batch = bytes.fromhex(vector["batch"])
    records = records_of(case)
    header = rb.check_batch(batch)
    assert Compression(header.compression).name.lower() == vector["codec"]
    assert rb.decode_records(batch) == records
    assert [fact[2] for fact in rb.decode_keys(batch)] == [r.key for r in records]
    fields = {name: case[name] for name in ("producer_id", "producer_epoch", "base_sequence")}
    assert {name: getattr(header, name) for name in fields} == fields
    ours = rb.encode_batch(
        records,
        compression=header.compression,
        leader_epoch=header.leader_epoch,
        transactional=case["is_transactional"],
        **fields,
    )
    if header.compression:
        assert rb.decode_records(ours) == records
    else:
        assert ours == batch


def test_every_codec_is_among_the_vectors() -> None:
    assert {vector["codec"] for vector in VECTORS["batches"]} == {codec.name.lower() for codec in Compression}
