"""A pending group as it is written: frames around the batches, closed by a COMMIT frame, padded to whole sectors."""

from __future__ import annotations

from mainstem.storage.contract import Buffer
from mainstem.storage.local.frame import (
    DATA,
    REF,
    SECTOR_BYTES,
    STATE,
    RefHead,
    encode_commit,
    encode_data_entries,
    encode_frame,
    encode_ref_head,
    encode_state_head,
    pad_to_sector,
)
from mainstem.storage.sequencer.commit_group import CommitGroup

PADDING = bytes(SECTOR_BYTES)


def encode_group(
    group: CommitGroup, generation: int, sequence: int, proven: int, time_ms: int, joined_bytes_max: int
) -> tuple[list[Buffer], int, int]:
    """The bytes of a group, their number, and where in them the first batch lies. Sets the group's body.

    Batches of at most `joined_bytes_max`, on average, are joined into one buffer.
    """
    parts: list[Buffer] = []
    crcs: list[int] = []
    data_offset = 0
    entries = group.entries
    if entries:
        head, body_bytes = encode_data_entries(entries)
        frame, crc = encode_frame(DATA, head, body_bytes, generation, sequence, proven)
        parts.append(frame)
        crcs.append(crc)
        data_offset = len(frame)
        if not group.body:
            buffers = [entry[7] for entry in entries]
            group.body = (b"".join(buffers),) if body_bytes <= joined_bytes_max * len(buffers) else buffers
        parts += group.body
    if group.refs:
        columns = list(zip(*group.refs, strict=True))[:8]
        frame, crc = encode_frame(REF, encode_ref_head(RefHead(*columns)), 0, generation, sequence, proven)
        parts.append(frame)
        crcs.append(crc)
    if group.state:
        frame, crc = encode_frame(STATE, encode_state_head(group.state), 0, generation, sequence, proven)
        parts.append(frame)
        crcs.append(crc)
    parts.append(encode_commit(crcs, time_ms, generation, sequence, proven))
    size = sum(map(len, parts))
    padding = pad_to_sector(size)
    if padding:
        parts.append(PADDING[:padding])
    return parts, size + padding, data_offset
