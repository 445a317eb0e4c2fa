"""Routes as adapters use them, over an engine."""

from unittest import mock

import pytest

from mainstem.broker import routes as routing
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import UnknownExchange
from mainstem.broker.routes import Destination, DestinationKind, NewExchange, Routed
from mainstem.model.errors import StorageFull
from mainstem.storage.answer import Answer
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine

QUEUE = Destination(DestinationKind.QUEUE, "queue")


@with_engine
async def test_durable_routes_are_there_after_a_restart_and_others_are_not(engine: MemoryEngine) -> None:
    router = (await Broker.open(engine, LoopClock())).routes.of("space")
    await router.declare_exchange(NewExchange("kept", "topic", arguments={"alternate-exchange": "x"}))
    await router.declare_exchange(NewExchange("lost", "topic", durable=False))
    await router.bind("kept", QUEUE, "a.*", {"note": "n"})
    await router.bind("kept", Destination(DestinationKind.QUEUE, "transient"), "a.*", {}, durable=False)
    await router.bind("lost", QUEUE, "a.*", {})
    assert router.route("kept", "a.b") == Routed(("queue", "transient"))

    again = (await Broker.open(engine, LoopClock())).routes
    assert again.of("space").route("kept", "a.b") == Routed(("queue",))
    assert again.of("space").find("lost") is None
    assert again.of("default").find("kept") is None


@with_broker
async def test_a_change_is_seen_by_what_was_routed_before(broker: Broker) -> None:
    router = broker.routes.of("default")
    assert router.route("amq.direct", "key") == Routed(())
    before = router.generation
    await router.bind("amq.direct", QUEUE, "key", {})
    assert router.generation > before
    assert router.route("amq.direct", "key") == Routed(("queue",))
    await router.unbind("amq.direct", QUEUE, "key", {})
    assert router.route("amq.direct", "key") == Routed(())


@with_broker
async def test_the_cache_of_routes_is_bounded(broker: Broker) -> None:
    router = broker.routes.of("default")
    for number in range(routing.ROUTES_CACHED_MAX + 10):
        router.route("amq.topic", str(number))
    assert len(router._cached) <= routing.ROUTES_CACHED_MAX


@with_broker
async def test_the_cache_of_routes_counts_the_queues_it_names(broker: Broker) -> None:
    """Ten thousand keys of a fan-out to a thousand queues would be ten million names."""
    router = broker.routes.of("default")
    for number in range(10):
        await router.bind("amq.fanout", Destination(DestinationKind.QUEUE, f"queue-{number}"), "", {})
    with mock.patch.object(routing, "QUEUES_CACHED_MAX", 50):
        for number in range(100):
            assert len(router.route("amq.fanout", f"key-{number}").queues) == 10
            assert sum(len(routed.queues) for routed in router._cached.values()) <= 50


@with_broker
async def test_what_waits_for_its_time_is_not_remembered_as_routed(broker: Broker) -> None:
    router = broker.routes.of("default")
    await router.declare_exchange(NewExchange("later", "x-delayed-message", arguments={"x-delayed-type": "direct"}))
    await router.bind("later", QUEUE, "key", {})
    assert router.route("later", "key", due=True) == Routed(("queue",), cacheable=False)
    assert router.route("later", "key", lambda: {"x-delay": 9}).queues == ()


@with_broker
async def test_a_refused_commit_leaves_no_trace(broker: Broker) -> None:
    router = broker.routes.of("default")
    await router.declare_exchange(NewExchange("transient", durable=False))
    await router.bind("transient", QUEUE, "key", {})
    engine = router._engine
    commit = engine.commit
    engine.commit = lambda commits: Answer.of([StorageFull("full")])  # type: ignore[method-assign]
    with pytest.raises(StorageFull):
        await router.declare_exchange(NewExchange("refused"))
    engine.commit = commit  # type: ignore[method-assign]
    with pytest.raises(UnknownExchange):
        router.route("refused", "key")
    assert router.route("transient", "key") == Routed(("queue",))


@with_broker
async def test_several_keys_meet_the_alternate_only_when_none_matches(broker: Broker) -> None:
    router = broker.routes.of("default")
    await router.declare_exchange(NewExchange("x", arguments={"alternate-exchange": "amq.fanout"}))
    await router.bind("x", QUEUE, "known", {})
    await router.bind("amq.fanout", Destination(DestinationKind.QUEUE, "rest"), "", {})
    assert router.route_all("x", ["unknown", "known"]) == Routed(("queue",))
    assert router.route_all("x", ["unknown", "strange"]) == Routed(("rest",))
