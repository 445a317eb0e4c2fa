"""Records and batches as Hypothesis draws them."""

from hypothesis import strategies as st

from mainstem.wire.record_batch import Record

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TIMES = st.integers(0, 1 << 42)
CODECS = st.integers(0, 4)

BYTES = st.one_of(st.binary(max_size=80), st.integers(0, 300).map(lambda size: b"x" * size))
HEADERS = st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=4).map(tuple)


@st.composite
def record_lists(
    draw: st.DrawFn, *, base_offset: int = 0, size_max: int = 30, times: st.SearchStrategy[int] = TIMES
) -> list[Record]:
    """Records with rising offsets, dense or with gaps."""
    gaps = draw(st.lists(st.just(1) | st.integers(1, 5000), min_size=1, max_size=size_max))
    offset = base_offset - 1
    records = []
    for gap in gaps:
        offset += gap
        records.append(
            Record(offset, draw(times), draw(st.none() | BYTES), draw(st.none() | BYTES), draw(st.just(()) | HEADERS))
        )
    return records
