"""Messages through exchanges of every kind."""

import time
from collections.abc import Mapping

import pytest

from mainstem.coordination.routes import errors
from mainstem.coordination.routes.binding import Destination, DestinationKind
from mainstem.coordination.routes.exchange import NewExchange
from mainstem.coordination.routes.routing import Delayed, Routed, follow, no_facts
from mainstem.coordination.routes.table import RouteChanges, RouteTable, decode_change

NOTHING: Mapping[str, object] = {}


class Table(RouteTable):
    """A table on which decisions take effect at once."""

    def apply(self, changes: RouteChanges) -> None:
        for mutation in changes.applied():
            _, kind, identity = decode_change(mutation.key)
            self.replay(kind, identity, mutation.value)

    def declare(self, name: str, kind: str = "direct", **rest: object) -> None:
        self.apply(self.decide_declare(NewExchange(name, kind, **rest)))  # type: ignore[arg-type]

    def bind(self, source: str, queue: str, key: str = "", arguments: Mapping[str, object] = NOTHING) -> None:
        self.apply(self.decide_bind(source, Destination(DestinationKind.QUEUE, queue), key, arguments))

    def link(self, source: str, exchange: str, key: str = "", arguments: Mapping[str, object] = NOTHING) -> None:
        self.apply(self.decide_bind(source, Destination(DestinationKind.EXCHANGE, exchange), key, arguments))

    def go(self, exchange: str, key: str = "", headers: Mapping[str, object] = NOTHING, **rest: object) -> Routed:
        return follow(self, exchange, (key,), lambda: headers, no_facts, due=bool(rest.get("due")))

    def queues(self, exchange: str, key: str = "", headers: Mapping[str, object] = NOTHING) -> set[str]:
        found = self.go(exchange, key, headers).queues
        assert len(found) == len(set(found)), "each once"
        return set(found)


@pytest.fixture
def table() -> Table:
    return Table("default")


def test_the_default_exchange_leads_to_the_queue_of_the_keys_name(table: Table) -> None:
    assert table.go("", "orders") == Routed(("orders",))


def test_predeclared_exchanges_are_there(table: Table) -> None:
    kinds = {exchange.name: exchange.kind for exchange in table.exchanges()}
    assert kinds == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }
    trace = table.find("amq.rabbitmq.trace")
    assert trace is not None
    assert trace.internal


def test_direct_fanout_topic(table: Table) -> None:
    for source in ("amq.direct", "amq.fanout", "amq.topic"):
        table.bind(source, "one", "a.b")
        table.bind(source, "two", "a.*")
        table.bind(source, "two", "#")
    assert table.queues("amq.direct", "a.b") == {"one"}
    assert table.queues("amq.fanout", "whatever") == {"one", "two"}
    assert table.queues("amq.topic", "a.b") == {"one", "two"}
    assert table.queues("amq.topic", "c") == {"two"}


@pytest.mark.parametrize(
    ("arguments", "headers", "matched"),
    [
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
        ({"a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2}, False),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)
def test_headers(table: Table, arguments: dict[str, object], headers: dict[str, object], matched: bool) -> None:
    table.bind("amq.headers", "queue", "", arguments)
    assert table.queues("amq.headers", "ignored", headers) == ({"queue"} if matched else set())


def test_an_unknown_x_match_is_refused(table: Table) -> None:
    with pytest.raises(errors.InvalidBinding):
        table.bind("amq.headers", "queue", "", {"x-match": "some"})


def test_consistent_hash_by_key_header_and_property(table: Table) -> None:
    table.declare("by-key", "x-consistent-hash")
    table.declare("by-header", "x-consistent-hash", arguments={"hash-header": "who"})
    table.declare("by-property", "x-consistent-hash", arguments={"hash-property": "message_id"})
    for source in ("by-key", "by-header", "by-property"):
        for queue in ("one", "two", "three"):
            table.bind(source, queue, "10")
    by_key = {key: table.go("by-key", key).queues for key in map(str, range(100))}
    assert set(by_key.values()) == {("one",), ("two",), ("three",)}
    assert all(table.go("by-key", key).queues == queues for key, queues in by_key.items())
    spread = {table.go("by-header", "same", {"who": str(number)}).queues for number in range(100)}
    assert len(spread) == 3
    assert len({table.go("by-header", str(number), {"who": "same"}).queues for number in range(100)}) == 1
    facts = [{"message_id": str(number)} for number in range(100)]
    chosen = {follow(table, "by-property", ("k",), no_facts, lambda f=f: f, due=False).queues for f in facts}
    assert len(chosen) == 3


@pytest.mark.parametrize("key", ["", "x", "0", "-1", "1.5", "99999999999", "1_0", " 1"])
def test_a_weight_must_be_a_positive_number(table: Table, key: str) -> None:
    table.declare("hash", "x-consistent-hash")
    with pytest.raises(errors.InvalidBinding):
        table.bind("hash", "queue", key)


def test_exchanges_lead_to_exchanges_and_circles_end(table: Table) -> None:
    table.declare("first", "fanout")
    table.declare("second", "topic")
    table.link("first", "second")
    table.link("second", "first", "#")
    table.bind("first", "one")
    table.bind("second", "two", "a.*")
    assert table.queues("first", "a.b") == {"one", "two"}
    assert table.queues("second", "b") == {"one"}


def test_the_alternate_exchange_takes_what_matches_nothing(table: Table) -> None:
    table.declare("first", arguments={"alternate-exchange": "rest"})
    table.declare("elsewhere", arguments={"alternate-exchange": "nowhere"})
    table.bind("first", "one", "known")
    assert table.queues("first", "unknown") == set()
    table.declare("rest", "fanout", arguments={"alternate-exchange": "first"})
    assert table.queues("first", "unknown") == set()
    table.bind("rest", "leftover")
    assert table.queues("first", "unknown") == {"leftover"}
    assert table.queues("first", "known") == {"one"}
    assert table.queues("elsewhere", "unknown") == set()


def test_a_delayed_exchange_keeps_what_says_so(table: Table) -> None:
    table.declare("later", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    table.bind("later", "queue", "a.#")
    table.link("amq.fanout", "later")
    assert table.go("later", "a.b", {"x-delay": 250}) == Routed((), (Delayed("later", 250),), cacheable=False)
    assert table.go("amq.fanout", "a.b", {"x-delay": "250"}) == Routed((), (Delayed("later", 250),), cacheable=False)
    assert table.go("later", "a.b", {"x-delay": 250}, due=True) == Routed(("queue",), cacheable=False)
    for at_once in (0, -5, "soon", None, True, 2**32, float("nan")):
        assert table.go("later", "a.b", {"x-delay": at_once}) == Routed(("queue",), cacheable=False)


@pytest.mark.parametrize(
    ("kind", "arguments", "refusal"),
    [
        ("weird", {}, errors.UnknownExchangeKind),
        ("direct", {"alternate-exchange": 5}, errors.InvalidExchangeArgument),
        ("x-delayed-message", {}, errors.InvalidExchangeArgument),
        ("x-delayed-message", {"x-delayed-type": "x-delayed-message"}, errors.InvalidExchangeArgument),
        ("x-consistent-hash", {"hash-property": "user_id"}, errors.InvalidExchangeArgument),
        (
            "x-consistent-hash",
            {"hash-property": "message_id", "hash-header": "a"},
            errors.InvalidExchangeArgument,
        ),
    ],
)
def test_refused_declarations(
    table: Table, kind: str, arguments: dict[str, object], refusal: type[errors.RouteError]
) -> None:
    with pytest.raises(refusal):
        table.declare("new", kind, arguments=arguments)


def test_an_exchange_declared_otherwise_is_refused_by_the_first_difference(table: Table) -> None:
    table.declare("here", "topic")
    table.declare("here", "topic")
    for difference in (
        {"kind": "direct"},
        {"durable": False},
        {"auto_delete": True},
        {"internal": True},
        {"arguments": {"alternate-exchange": "x"}},
    ):
        with pytest.raises(errors.ExchangeDiffers) as caught:
            table.declare("here", **{"kind": "topic", **difference})  # type: ignore[arg-type]
        assert caught.value.field == {"kind": "type", "arguments": "alternate-exchange"}.get(*[*difference] * 2)


def test_names_of_the_broker_are_kept(table: Table) -> None:
    with pytest.raises(errors.ReservedExchange):
        table.declare("amq.mine")
    with pytest.raises(errors.ReservedExchange):
        table.decide_delete("amq.direct")
    for attempt in (lambda: table.declare(""), lambda: table.decide_delete(""), lambda: table.bind("", "queue", "key")):
        with pytest.raises(errors.DefaultExchange):
            attempt()
    table.declare("amq.direct")


def test_arguments_are_part_of_what_a_binding_is(table: Table) -> None:
    table.bind("amq.topic", "queue", "a", {"x": 1, "y": 2})
    table.bind("amq.topic", "queue", "a", {"y": 2, "x": 1})
    table.bind("amq.topic", "queue", "a", {"x": 2})
    assert len(table.outgoing("amq.topic")) == 2
    destination = Destination(DestinationKind.QUEUE, "queue")
    table.apply(table.decide_unbind("amq.topic", destination, "a", {}))
    assert len(table.outgoing("amq.topic")) == 2
    table.apply(table.decide_unbind("amq.topic", destination, "a", {"x": 2}))
    assert [binding.arguments for binding in table.outgoing("amq.topic")] == [{"x": 1, "y": 2}]


def test_an_exchange_that_deletes_itself_goes_with_its_last_binding_and_takes_others_along(table: Table) -> None:
    table.declare("source", "fanout", auto_delete=True)
    table.declare("middle", "fanout", auto_delete=True)
    table.declare("unused", auto_delete=True)
    table.link("source", "middle")
    table.bind("middle", "queue")
    table.apply(table.decide_forget_queue("queue"))
    assert table.find("middle") is None
    assert table.find("source") is None
    assert table.find("unused") is not None
    assert list(table.bindings()) == []


def test_deleting_an_exchange(table: Table) -> None:
    table.declare("source")
    table.bind("source", "queue", "key")
    with pytest.raises(errors.ExchangeInUse):
        table.decide_delete("source", if_unused=True)
    table.apply(table.decide_delete("source"))
    assert table.incoming(Destination(DestinationKind.QUEUE, "queue")) == []
    with pytest.raises(errors.UnknownExchange):
        table.decide_delete("source")
    with pytest.raises(errors.UnknownExchange):
        table.go("source", "key")


@pytest.mark.parametrize("kind", ["fanout", "headers", "topic"])
def test_a_message_with_many_keys_is_matched_no_more_often_than_needed(table: Table, kind: str) -> None:
    """A list of ten thousand CC keys made one message cost as much as ten thousand."""
    table.declare("here", kind)
    for number in range(1000):
        table.bind("here", f"queue-{number}", "k.#")
    keys = [f"k.{number if kind != 'topic' else 0}" for number in range(10_000)]
    began = time.process_time()
    assert len(follow(table, "here", keys, lambda: {}, no_facts, due=False).queues) == 1000
    assert time.process_time() - began < 1
