"""What operators set is durable, and holds."""

import pytest

from mainstem.broker.administration import Namespace, Parameter, Permission, Policy, TopicPermission, User
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.routes import Destination, DestinationKind, NewExchange, Routed
from mainstem.broker.users.passwords import is_right
from mainstem.coordination.administration.errors import InvalidEntry, UnknownNamespace, UnknownUser
from mainstem.coordination.administration.passwords import hash_password, is_password, is_password_hash
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine


@with_engine
async def test_all_is_there_after_a_restart(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.namespaces.put(Namespace("shop", "a shop", ("a",)))
    await broker.access.put(User("ann", broker.access.passwords.hash("secret"), tags=("administrator",)))
    await broker.access.put(Permission("ann", "shop", "^own", ".*", ""))
    await broker.access.put(TopicPermission("ann", "shop", "amq.topic", "^a", ".*"))
    await broker.policies.put(Policy("shop", "short", "^s", {"max-length": 5}))
    await broker.parameters.put(Parameter("shop", "shovel", "mine", {"src": [1, None, "x"]}))

    again = await Broker.open(engine, LoopClock())
    assert [namespace.name for namespace in again.namespaces.all()] == ["default", "shop"]
    assert is_right(again.access.find("ann"), b"secret", 1)
    assert not is_right(again.access.find("ann"), b"wrong", 1)
    assert not is_right(again.access.find("bob"), b"secret", 1)
    ann = again.access.admit("ann")
    assert ann.may("shop", "configure", "own-queue")
    assert not ann.may("shop", "configure", "other")
    assert ann.may("shop", "write", "")
    assert not ann.may("shop", "read", "other")
    assert not ann.may("default", "read", "other")
    assert not ann.may_enter("default")
    assert again.access.admit("configured", is_superuser=True).may("default", "read", "anything")
    assert ann.may_use_key("shop", "amq.topic", "write", "abc", "shop")
    assert not ann.may_use_key("shop", "amq.topic", "write", "xyz", "shop")
    assert again.policies.of("shop").definition("sale", "classic_queues") == {"max-length": 5}
    assert again.parameters.find("shop", "shovel", "mine").value == {"src": [1, None, "x"]}

    await again.namespaces.remove("shop")
    assert again.policies.entries == {}
    assert again.access.stored_permissions() == []
    with pytest.raises(UnknownNamespace):
        again.namespaces.get("shop")
    await again.access.remove_user("ann")
    with pytest.raises(UnknownUser):
        again.access.get("ann")


@with_broker
async def test_who_is_not_known_may_nothing(broker: Broker) -> None:
    stranger = broker.access.admit("nobody")
    assert not stranger.may_enter("default")
    assert not stranger.may("default", "read", "q")
    assert not stranger.may_use_key("default", "amq.topic", "write", "k", "/")
    with pytest.raises(UnknownUser):
        await broker.access.put(Permission("nobody", "default", ".*", ".*", ".*"))


@with_broker
async def test_who_is_removed_or_loses_a_namespace_is_closed_and_may_nothing(broker: Broker) -> None:
    closed: list[str] = []
    for name in ("ann", "bob"):
        await broker.access.put(User(name))
        await broker.access.put(Permission(name, "default", ".*", ".*", ".*"))
    ann, bob, root = (broker.access.admit(name, is_superuser=name == "root") for name in ("ann", "bob", "root"))
    for caller in (ann, bob, root):
        caller.namespace = "default"
        caller.hold(closed.append)
    permission = broker.access.permission_of("ann", "default")
    assert permission is not None
    await broker.access.remove([permission])
    assert closed == ["user 'ann' has lost its permissions on the virtual host"]
    await broker.access.remove_user("bob")
    assert closed[1:] == ["user 'bob' is deleted"]
    await broker.access.put(User("bob"))
    await broker.access.put(Permission("bob", "default", ".*", ".*", ".*"))
    assert not bob.may("default", "read", "q"), "another user of the same name"
    assert broker.access.admit("bob").may("default", "read", "q")
    assert root.may("default", "read", "q")
    root.leave()
    assert broker.access.callers == {}


@with_broker
async def test_topic_permissions_know_the_user_and_the_virtual_host(broker: Broker) -> None:
    await broker.access.put(User("a.b"))
    await broker.access.put(TopicPermission("a.b", "default", "amq.topic", "^{username}\\.{vhost}\\.", ".*"))
    caller = broker.access.admit("a.b")
    assert caller.may_use_key("default", "amq.topic", "write", "a.b.shop.x", "shop")
    assert not caller.may_use_key("default", "amq.topic", "write", "axb.shop.x", "shop")
    assert not caller.may_use_key("default", "amq.topic", "write", "a.b.other.x", "shop")


@with_engine
async def test_a_new_password_does_not_lock_guest_out_and_a_removed_guest_stays_away(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.namespaces.put(Namespace("shop"))
    await broker.access.put(User("guest", broker.access.passwords.hash("new"), tags=("administrator",)))
    assert is_right(broker.access.find("guest"), b"new", 1)
    assert not is_right(broker.access.find("guest"), b"guest", 1)
    assert broker.access.admit("guest").may("shop", "configure", "q")
    await broker.access.remove_user("guest")
    for each in (broker, await Broker.open(engine, LoopClock())):
        assert each.access.find("guest") is None
        assert not is_right(each.access.find("guest"), b"guest", 1)
        assert [user.name for user in each.access.all()] == []


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
