"""What operators set is durable, and holds."""

import pytest

from mainstem.broker.administration import Namespace, Parameter, Permission, Policy, TopicPermission, User
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.routes import Destination, DestinationKind, NewExchange, Routed
from mainstem.coordination.administration.errors import InvalidEntry, UnknownNamespace, UnknownUser
from mainstem.coordination.administration.passwords import hash_password, is_password, is_password_hash
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine


@with_engine
async def test_all_is_there_after_a_restart(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.namespaces.put(Namespace("shop", "a shop", ("a",)))
    await broker.access.put(User("ann", broker.access.hash_password("secret"), tags=("administrator",)))
    await broker.access.put(Permission("ann", "shop", "^own", ".*", ""))
    await broker.access.put(TopicPermission("ann", "shop", "amq.topic", "^a", ".*"))
    await broker.policies.put(Policy("shop", "short", "^s", {"max-length": 5}))
    await broker.parameters.put(Parameter("shop", "shovel", "mine", {"src": [1, None, "x"]}))

    again = await Broker.open(engine, LoopClock())
    assert [namespace.name for namespace in again.namespaces.all()] == ["default", "shop"]
    assert again.access.is_right("ann", b"secret") is True
    assert again.access.is_right("ann", b"wrong") is False
    assert again.access.is_right("bob", b"secret") is None
    assert again.access.may("ann", "shop", "configure", "own-queue")
    assert not again.access.may("ann", "shop", "configure", "other")
    assert again.access.may("ann", "shop", "write", "")
    assert not again.access.may("ann", "shop", "read", "other")
    assert not again.access.may("ann", "default", "read", "other")
    assert not again.access.may_enter("ann", "default")
    assert again.access.may("configured", "default", "read", "anything")
    assert again.access.may_use_key("ann", "shop", "amq.topic", "write", "abc")
    assert not again.access.may_use_key("ann", "shop", "amq.topic", "write", "xyz")
    assert again.policies.of("shop").definition("sale", "classic_queues") == {"max-length": 5}
    assert again.parameters.find("shop", "shovel", "mine").value == {"src": [1, None, "x"]}

    await again.namespaces.remove("shop")
    assert again.policies.entries == {}
    assert again.access.permissions == {}
    with pytest.raises(UnknownNamespace):
        again.namespaces.get("shop")
    await again.access.remove_user("ann")
    with pytest.raises(UnknownUser):
        again.access.get("ann")


@with_broker
async def test_the_default_namespace_stays(broker: Broker) -> None:
    with pytest.raises(InvalidEntry):
        await broker.namespaces.remove("default")
    await broker.namespaces.put(Namespace("default", "described"))
    assert broker.namespaces.get("default").description == "described"


@with_broker
async def test_a_policy_gives_an_exchange_its_alternate_at_once(broker: Broker) -> None:
    router = broker.routes.of("default")
    await router.declare_exchange(NewExchange("plain"))
    await router.bind("amq.fanout", Destination(DestinationKind.QUEUE, "rest"), "", {})
    assert router.route("plain", "k") == Routed(())
    policy = Policy("default", "ae", "^plain$", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    await broker.policies.put(policy)
    assert router.route("plain", "k") == Routed(("rest",))
    await broker.policies.remove(policy)
    assert router.route("plain", "k") == Routed(())


def test_passwords_as_rabbitmq_stores_them() -> None:
    # The worked example of RabbitMQ's documentation: password test12, salt 908DC60A.
    stored = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password(b"test12", bytes.fromhex("908DC60A")) == stored
    assert is_password(b"test12", stored, "rabbit_password_hashing_sha256")
    assert not is_password(b"test13", stored, "rabbit_password_hashing_sha256")
    assert not is_password(b"", "", "rabbit_password_hashing_sha256")
    assert not is_password(b"x", "not base64!", "rabbit_password_hashing_sha256")
    assert is_password_hash(stored, "rabbit_password_hashing_sha256")
    assert not is_password_hash(stored, "rabbit_password_hashing_md5")
    assert not is_password_hash(stored, "unknown")
