"""Deliveries: their frames, many at once as one by one, and who waits for an acknowledgement."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.queues import Message
from mainstem.protocols.amqp.handlers.deliver.frames import DeliveryFrames, Template
from mainstem.protocols.amqp.handlers.deliver.unacknowledged import Unacknowledged, shares

HEADERS = (b"\0", b"\1a", b"\2bc")
KINDS = st.tuples(
    st.sampled_from(HEADERS), st.integers(0, 1), st.binary(max_size=4) | st.just(b"x" * 3_000), st.booleans()
)


def message(headers: bytes = b"\0", deliveries: int = 0, value: bytes = b"", *, viewed: bool = False) -> Message:
    made = Message(None, 0, 0, None, headers, memoryview(value) if viewed else value, 0)  # type: ignore[arg-type]
    made.deliveries = deliveries
    return made


def template(made: Message) -> Template | None:
    if made.headers == HEADERS[2]:
        return None
    size = str(len(made.value)).encode()
    return made.headers, size + b"+" if made.deliveries else size, made.headers == HEADERS[0]


def encode(made: Message, tag: int) -> bytes:
    return b"<%d %d>" % (tag, len(made.value))


@given(st.lists(KINDS, max_size=30), st.integers(1, 1 << 62), st.integers(1, 3))
def test_many_at_once_are_the_same_as_one_by_one(kinds: list[Any], tag: int, times: int) -> None:
    messages = [message(headers, deliveries, value, viewed=viewed) for headers, deliveries, value, viewed in kinds]
    frames = DeliveryFrames(template, encode)
    expected = b""
    for number, made in enumerate(messages):
        found = template(made)
        if found is None:
            expected += encode(made, tag + number)
        else:
            expected += found[0] + (tag + number).to_bytes(8, "big") + found[1] + bytes(made.value) + b"\xce"
    for _ in range(times):  # with what was remembered of the times before
        assert frames.encode(messages, tag) == expected
        assert frames._join(messages, tag) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 2)), max_size=30))
def test_what_waits_is_what_was_delivered_and_not_taken(steps: list[tuple[int, int, int]]) -> None:
    unacked = Unacknowledged()
    model: dict[int, Message] = {}
    next_tag = 1
    gone: dict[int, Message] = {}
    for kind, number, holder in steps:
        if kind == 0:
            made = [message() for _ in range(number)]
            unacked.add(next_tag, holder, made)
            model |= dict(enumerate(made, next_tag))
            next_tag += number + holder  # gaps are of deliveries that nobody acknowledges
        elif kind == 1:
            tags = [number] if number % 2 else [number, number + 1]
            known = [tag for tag in tags if tag in model]
            known = known if tags[0] in model else []
            assert unacked.take(tags) == [model[tag] for tag in known]
            gone |= {tag: model.pop(tag) for tag in known}
        elif kind == 2:
            tags = [tag for tag in model if not number or tag <= number]
            assert unacked.until(number) == tags
            assert unacked.take(tags) == [model[tag] for tag in tags]
            gone |= {tag: model.pop(tag) for tag in tags}
        else:
            unacked.restore(gone.items())
            model = dict(sorted((model | gone).items()))
            gone = {}
        assert len(unacked) == len(model)
        assert unacked.oldest() == min(model, default=0)
        assert unacked.until(0) == list(model)
    assert unacked.take_all() == list(model.values())
    assert len(unacked) == 0


def test_each_holder_has_its_share() -> None:
    unacked = Unacknowledged()
    one, two = object(), object()
    unacked.add(1, one, [message(), message()])
    unacked.add(3, two, [message()])
    unacked.add(4, one, [message()])
    assert shares(unacked.take([1, 2, 3, 4])) == [(one, 2), (two, 1), (one, 1)]
    assert shares([]) == []
