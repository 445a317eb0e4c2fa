"""Anything that a field table or a property list may hold."""

from typing import Any

from hypothesis import strategies as st

from mainstem.protocols.amqp.codec.field_table import Field

names = st.text(max_size=20).filter(lambda name: len(name.encode("utf-8", "surrogateescape")) < 256)
short_texts = st.text(max_size=60).filter(lambda text: len(text.encode("utf-8")) < 256)


def _integers(kind: str, bits: int, signed: bool) -> st.SearchStrategy[Field]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.builds(Field, st.just(kind), st.integers(low, high))


scalars = st.one_of(
    _integers("byte", 8, True),
    _integers("unsignedbyte", 8, False),
    _integers("short", 16, True),
    _integers("unsignedshort", 16, False),
    _integers("signedint", 32, True),
    _integers("unsignedint", 32, False),
    _integers("long", 64, True),
    _integers("timestamp", 64, False),
    st.builds(Field, st.just("float"), st.floats(width=32, allow_nan=False)),
    st.builds(Field, st.just("double"), st.floats(allow_nan=False)),
    st.builds(Field, st.just("decimal"), st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1))),
    st.builds(Field, st.just("bool"), st.booleans()),
    st.builds(Field, st.just("longstr"), st.binary(max_size=50)),
    st.builds(Field, st.just("binary"), st.binary(max_size=50)),
    st.just(Field("void", None)),
)
fields = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(Field, st.just("array"), st.lists(inner, max_size=4)),
        st.builds(Field, st.just("table"), st.dictionaries(names, inner, max_size=4)),
    ),
    max_leaves=12,
)
tables = st.dictionaries(names, fields, max_size=5)
properties: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            (
                "content_type",
                "content_encoding",
                "correlation_id",
                "reply_to",
                "expiration",
                "message_id",
                "type",
                "user_id",
                "app_id",
                "cluster_id",
            ),
            short_texts,
        ),
        "headers": tables,
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**64 - 1),
    },
)
