"""Writes record_batches.json: batches as two independent Python clients build them.

Run in an environment of its own, with the packages that the README beside names. Not run by the tests.
"""

import json
import sys
from pathlib import Path

import aiokafka
import kafka
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

SOURCES = {
    f"kafka-python {kafka.__version__}": KafkaPythonBuilder,
    f"aiokafka {aiokafka.__version__}": AioBuilder,
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGEST = 20_000
NOW = 1_700_000_000_000
PLAIN = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "is_transactional": False}

CASES = {
    "one small record": (PLAIN, [(NOW, b"key", b"value", [])]),
    "null key, null value, empty key, empty value": (
        PLAIN,
        [(NOW, None, b"", []), (NOW, b"", None, []), (NOW, None, None, [])],
    ),
    "headers, one of them null": (
        PLAIN,
        [(NOW, b"k", b"v", [("trace", b"\x00\xff"), ("", b""), ("größe", None)]), (NOW + 1, b"k", b"v", [("a", b"1")])],
    ),
    "timestamps out of order": (
        PLAIN,
        [(NOW, b"a", b"1", []), (NOW - 90_000, b"b", b"2", []), (NOW + 7, b"c", b"3", [])],
    ),
    "seventy records with values of growing length": (
        PLAIN,
        [(NOW + index * 13, b"key-%d" % (index % 7), b"abcdefgh" * (index // 4), []) for index in range(70)],
    ),
    "more than one snappy block": (PLAIN, [(NOW, None, b"0123456789" * 7000, [])]),
    "transactional producer": (
        {
            "producer_id": 4_000_000_000_123,
            "producer_epoch": 7,
            "base_sequence": 2_147_483_646,
            "is_transactional": True,
        },
        [(NOW, b"key", b"value", []), (NOW, b"key", b"other", [])],
    ),
}


def text_of(content: bytes | None) -> str | None:
    if content is None:
        return None
    # long values repeat themselves: written as "pattern*times"
    for size in (8, 10):
        times = len(content) // size
        if times > 1 and content == content[:size] * times:
            return f"{content[:size].hex()}*{times}"
    return content.hex()


def capture() -> dict[str, object]:
    batches: dict[bytes, dict[str, object]] = {}
    for source, builder_type in SOURCES.items():
        for name, (producer, records) in CASES.items():
            for codec in range(len(CODECS)):
                builder = builder_type(magic=2, compression_type=codec, batch_size=1 << 20, **producer)
                for offset, (timestamp, key, value, headers) in enumerate(records):
                    builder.append(offset, timestamp, key, value, headers)
                batch = bytes(builder.build())
                if len(batch) > LARGEST or batch in batches:
                    continue
                # a builder keeps a batch uncompressed where compressing would not make it smaller
                built = CODECS[batch[22] & 7]
                batches[batch] = {"case": name, "source": source, "codec": built, "batch": batch.hex()}
    cases = {
        name: {
            **producer,
            "records": [
                [
                    offset,
                    timestamp,
                    text_of(key),
                    text_of(value),
                    [[text, text_of(content)] for text, content in headers],
                ]
                for offset, (timestamp, key, value, headers) in enumerate(records)
            ],
        }
        for name, (producer, records) in CASES.items()
    }
    return {"cases": cases, "batches": list(batches.values())}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(capture(), ensure_ascii=False, indent=1) + "\n")
