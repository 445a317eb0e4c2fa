from mainstem.storage.local.read_buffers import BUFFER_BYTES, BUFFERS_MAX, POOLED_BYTES_MIN, ReadBuffers


def test_a_small_read_holds_no_large_buffer() -> None:
    assert len(ReadBuffers().take(200).obj) == 200


def test_a_buffer_is_used_again_when_nobody_looks_into_it() -> None:
    buffers = ReadBuffers()
    first = buffers.take(POOLED_BYTES_MIN)
    kept = first[10:20].toreadonly()
    owner = id(first.obj)
    del first
    other = buffers.take(POOLED_BYTES_MIN)
    assert id(other.obj) != owner
    del kept
    assert id(buffers.take(BUFFER_BYTES).obj) == owner


def test_there_are_never_more_buffers_than_allowed() -> None:
    buffers = ReadBuffers()
    held = [buffers.take(POOLED_BYTES_MIN) for _ in range(BUFFERS_MAX + 3)]
    assert [len(view.obj) for view in held[BUFFERS_MAX:]] == [POOLED_BYTES_MIN] * 3
