"""What is stored, replayed, is what was there: against every history of declarations and bindings."""

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainstem.coordination.routes.binding import Destination, DestinationKind
from mainstem.coordination.routes.errors import RouteError
from mainstem.coordination.routes.exchange import NewExchange
from mainstem.coordination.routes.routing import follow, no_facts
from mainstem.coordination.routes.table import RouteChanges, RouteTable, decode_change, in_order

EXCHANGES = st.sampled_from(["x1", "x2", "x3", "amq.fanout", "amq.topic"])
QUEUES = st.sampled_from(["q1", "q2", "q3"])
KEYS = st.sampled_from(["", "1", "2", "a", "a.b", "#", "*.b"])
DESTINATIONS = st.one_of(
    st.builds(Destination, st.just(DestinationKind.QUEUE), QUEUES),
    st.builds(Destination, st.just(DestinationKind.EXCHANGE), EXCHANGES),
)
ARGUMENTS = st.sampled_from([{}, {"a": 1}, {"x-match": "any", "a": 1}])
KINDS = st.sampled_from(["direct", "fanout", "topic", "headers", "x-consistent-hash"])


class Histories(RuleBasedStateMachine):
    """A table, and what a log would hold of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable("space")
        self.stored: dict[bytes, bytes] = {}

    def apply(self, changes: RouteChanges) -> None:
        for mutation in changes.state:
            if mutation.value is None:
                del self.stored[mutation.key]
            else:
                self.stored[mutation.key] = mutation.value
        for mutation in changes.applied():
            _, kind, identity = decode_change(mutation.key)
            self.table.replay(kind, identity, mutation.value)

    @rule(name=EXCHANGES, kind=KINDS, durable=st.booleans(), auto_delete=st.booleans())
    def declare(self, name: str, kind: str, durable: bool, auto_delete: bool) -> None:
        try:
            self.apply(self.table.decide_declare(NewExchange(name, kind, durable, auto_delete)))
        except RouteError:
            pass

    @rule(source=EXCHANGES, destination=DESTINATIONS, key=KEYS, arguments=ARGUMENTS, durable=st.booleans())
    def bind(
        self, source: str, destination: Destination, key: str, arguments: Mapping[str, object], durable: bool
    ) -> None:
        try:
            self.apply(self.table.decide_bind(source, destination, key, arguments, durable=durable))
        except RouteError:
            pass

    @rule(source=EXCHANGES, destination=DESTINATIONS, key=KEYS, arguments=ARGUMENTS)
    def unbind(self, source: str, destination: Destination, key: str, arguments: Mapping[str, object]) -> None:
        try:
            self.apply(self.table.decide_unbind(source, destination, key, arguments))
        except RouteError:
            pass

    @rule(name=EXCHANGES)
    def delete(self, name: str) -> None:
        try:
            self.apply(self.table.decide_delete(name))
        except RouteError:
            pass

    @rule(name=QUEUES)
    def forget_queue(self, name: str) -> None:
        self.apply(self.table.decide_forget_queue(name))

    @rule()
    def restart(self) -> None:
        self.table = self.replayed()

    def replayed(self) -> RouteTable:
        again = RouteTable("space")
        for (namespace, kind, identity), value in in_order(self.stored):
            assert namespace == "space"
            again.replay(kind, identity, value)
        return again

    @invariant()
    def replay_gives_what_is_durable(self) -> None:
        again = self.replayed()
        assert {x.name: x.wish() for x in again.exchanges()} == {
            x.name: x.wish() for x in self.table.exchanges() if x.durable
        }
        assert {b.identity: b.serial for b in again.bindings()} == {
            b.identity: b.serial for b in self.table.bindings() if b.durable
        }

    @invariant()
    def bindings_have_both_ends(self) -> None:
        for binding in self.table.bindings():
            assert self.table.find(binding.source) is not None
            if binding.destination.kind is DestinationKind.EXCHANGE:
                assert self.table.find(binding.destination.name) is not None
            assert binding in self.table.incoming(binding.destination)

    @invariant()
    def routes_end_at_bound_queues(self) -> None:
        bound = {b.destination.name for b in self.table.bindings() if b.destination.kind is DestinationKind.QUEUE}
        for exchange in self.table.exchanges():
            if exchange.name:
                routed = follow(self.table, exchange.name, ("a.b",), lambda: {"a": 1}, no_facts, due=False)
                assert set(routed.queues) <= bound


TestHistories = Histories.TestCase
