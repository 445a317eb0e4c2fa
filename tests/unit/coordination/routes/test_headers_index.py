"""Headers bindings: the index finds what comparing every binding would, and looks at few of them."""

import datetime
import time
from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.routes.binding import Binding, Destination, DestinationKind
from mainstem.coordination.routes.headers_index import HeadersIndex, headers_match

NAMES = st.sampled_from(["a", "b", "c", "x-a", "x-match"])
PLAIN = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 2, 0.5, "", "1", b"1", "true", datetime.datetime.fromtimestamp(1, datetime.UTC)]
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=3
)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=5)
WORDS = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


@st.composite
def _arguments(draw: st.DrawFn) -> dict[str, object]:
    arguments = {name: value for name, value in draw(HEADERS).items() if name != "x-match"}
    word = draw(WORDS)
    return arguments if word is None else {"x-match": word, **arguments}


def bindings_of(arguments: Iterable[Mapping[str, object]]) -> list[Binding]:
    return [
        Binding("headers", Destination(DestinationKind.QUEUE, f"queue-{serial}"), "", each, durable=True, serial=serial)
        for serial, each in enumerate(arguments)
    ]


def indexed(bindings: Iterable[Binding]) -> HeadersIndex:
    index = HeadersIndex()
    for binding in bindings:
        index.add(binding)
    return index


def serials(index: HeadersIndex, headers: Mapping[str, object]) -> list[int]:
    return sorted(binding.serial for binding in index.match(headers))


@given(st.lists(_arguments(), max_size=12), st.lists(HEADERS, max_size=6), st.data())
def test_the_index_finds_what_comparing_every_binding_does(
    arguments: list[dict[str, object]], messages: list[dict[str, object]], data: st.DataObject
) -> None:
    bindings = bindings_of(arguments)
    index = indexed(bindings)
    messages += [{**each} for each in arguments]
    for binding in [None, *data.draw(st.permutations(bindings))]:
        if binding is not None:
            index.remove(binding)
            bindings.remove(binding)
        for headers in messages:
            assert serials(index, headers) == [b.serial for b in bindings if headers_match(b.arguments, headers)]
    assert index.is_empty()
    assert not any((index._alls_by_home, index._anys_by_demand, index._names)), "nothing is left of what was removed"


def test_a_message_is_compared_only_with_bindings_that_could_take_it() -> None:
    alls = [{"kind": "order", "region": f"r{number}"} for number in range(5000)]
    anys = [{"x-match": "any", "customer": number, "shop": number} for number in range(5000)]
    index = indexed(bindings_of(alls + anys))
    headers = {"kind": "order", "region": "r77", "shop": 99, "weight": 5}
    rounds = 200
    began = time.process_time()
    for _ in range(rounds):
        assert serials(index, headers) == [77, 5099]
    assert (time.process_time() - began) / rounds < 0.0001, "0.1 ms a message"


def test_bindings_that_ask_for_the_same_are_tested_once() -> None:
    index = indexed(bindings_of({"kind": "order", "big": True} for _ in range(5000)))
    rounds = 200
    began = time.process_time()
    for _ in range(rounds):
        assert serials(index, {"kind": "order", "big": 1}) == []
    assert (time.process_time() - began) / rounds < 0.0001, "0.1 ms a message"
    assert len(serials(index, {"kind": "order", "big": True})) == 5000
