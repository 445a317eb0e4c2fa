"""The engine's rules, broken one at a time: what the checker must notice."""

from __future__ import annotations

from mainstem.storage.local import frame as frames
from mainstem.storage.local.frame import BadFrame, Frame
from mainstem.storage.local.wal.stored_group import BadGroup, StoredGroup, decode_group
from tests.simulation.world import World


def acknowledge_before_sync(world: World) -> None:
    """The disk says that it has synced, and has not."""
    world.disk.lies_about_sync = True


def decode_group_without_commit(
    content: memoryview, position: int, generation: int, sequence: int, *, by_heads: bool = False
) -> StoredGroup:
    """A group that its COMMIT frame never closed is taken for what is there of it."""
    try:
        return decode_group(content, position, generation, sequence, by_heads=by_heads)
    except BadGroup:
        found: list[Frame] = []
        at = position
        while True:
            try:
                frame = frames.decode_frame(content, at, generation)
            except BadFrame:
                break
            if frame.sequence != sequence or frame.kind == frames.COMMIT:
                break
            found.append(frame)
            at = frame.end
        if not found:
            raise
    parts = {frame.kind: frame for frame in found}
    data, refs, state = parts.get(frames.DATA), parts.get(frames.REF), parts.get(frames.STATE)
    end = at + frames.pad_to_sector(at)
    return StoredGroup(
        position,
        end,
        sequence,
        found[-1].proven,
        0,
        frames.decode_data_head(data.head) if data else None,
        data.body_position if data else 0,
        frames.decode_ref_head(refs.head) if refs else None,
        frames.decode_state_head(state.head) if state else [],
        found,
    )


def encode_frame_without_generation(
    kind: int, head: bytes, body_bytes: int, generation: int, sequence: int, proven: int
) -> tuple[bytes, int]:
    """The checksum says nothing about the generation."""
    pack = frames._FRAME.pack
    bare = pack(frames.FRAME_MAGIC, kind, 0, 0, len(head), body_bytes, 0, sequence, proven)
    crc = frames.frame_checksum(bare, head)
    return pack(frames.FRAME_MAGIC, kind, 0, crc, len(head), body_bytes, generation, sequence, proven) + head, crc


def decode_frame_without_generation(data: memoryview, position: int, generation: int) -> Frame:
    """A frame of any generation is good."""
    head_position = position + frames.FRAME_BYTES
    if head_position > len(data):
        raise BadFrame("file ends within a frame header")
    magic, kind, flags, crc, head_bytes, body_bytes, _, sequence, proven = frames._FRAME.unpack_from(data, position)
    body_position = head_position + head_bytes
    if magic != frames.FRAME_MAGIC or kind not in frames.KIND_NAMES or flags or body_position + body_bytes > len(data):
        raise BadFrame("not a frame")
    head = data[head_position:body_position]
    bare = frames._FRAME.pack(magic, kind, 0, 0, head_bytes, body_bytes, 0, sequence, proven)
    if frames.frame_checksum(bare, head) != crc:
        raise BadFrame("frame checksum does not match")
    return Frame(kind, position, generation, sequence, proven, crc, head, body_position, body_bytes)
