"""The catalog: decisions, and that replaying them is all there is to recovery."""

import uuid
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.catalog.catalog import Catalog, NewTopic, check_topic_name
from mainstem.coordination.decision import Decision
from mainstem.coordination.errors import (
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    TopicError,
    TopicExists,
    UnknownTopic,
)
from mainstem.storage.contract import ConfigureLog, CreateLog, DeleteLog


class Ledger:
    """What a log would keep of the catalog's state."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.state: dict[bytes, bytes] = {}

    def commit(self, change: Decision) -> None:
        for mutation in change.state:
            self.catalog.replay(mutation.key, mutation.value)
            if mutation.value is None:
                del self.state[mutation.key]
            else:
                self.state[mutation.key] = mutation.value

    def create(self, *wishes: NewTopic) -> Decision:
        change = self.catalog.decide_create(wishes, uuid.uuid4)
        self.commit(change)
        return change

    def recovered(self) -> Catalog:
        catalog = Catalog()
        for key, value in self.state.items():
            catalog.replay(key, value)
        return catalog


def shape(catalog: Catalog) -> dict[str, tuple[object, ...]]:
    return {t.name: (t.id, t.logs, dict(t.configs)) for t in catalog.topics().values()}


def test_a_topic_comes_with_its_logs() -> None:
    ledger = Ledger()
    change = ledger.create(NewTopic("orders", 3, {"retention.ms": "5"}))
    topic = ledger.catalog.topic("orders")
    assert [c.log for c in change.logs if isinstance(c, CreateLog)] == list(topic.logs)
    assert all(isinstance(c, CreateLog) and c.config.retention_ms == 5 for c in change.logs)
    assert ledger.catalog.by_id[topic.id] is topic


def test_log_ids_are_never_used_twice() -> None:
    ledger = Ledger()
    ledger.create(NewTopic("a", 2))
    first = ledger.catalog.topic("a").logs
    deletion = ledger.catalog.decide_delete(ledger.catalog.topic("a"))
    assert [c.log for c in deletion.logs if isinstance(c, DeleteLog)] == list(first)
    ledger.commit(deletion)
    ledger.create(NewTopic("a", 2))
    assert not set(first) & set(ledger.catalog.topic("a").logs)


def test_expansion_keeps_what_is_there() -> None:
    ledger = Ledger()
    ledger.create(NewTopic("a", 2), NewTopic("b", 1))
    before = ledger.catalog.topic("a").logs
    ledger.commit(ledger.catalog.decide_expand(ledger.catalog.topic("a"), 4))
    assert ledger.catalog.topic("a").logs[:2] == before
    assert len(set(ledger.catalog.topic("a").logs + ledger.catalog.topic("b").logs)) == 5
    with pytest.raises(InvalidPartitionCount):
        ledger.catalog.decide_expand(ledger.catalog.topic("a"), 4)


def test_configuring_reaches_every_log() -> None:
    ledger = Ledger()
    ledger.create(NewTopic("a", 2))
    change = ledger.catalog.decide_configure(
        ledger.catalog.topic("a"), {"message.timestamp.type": "LogAppendTime", "retention.ms": "9"}
    )
    assert [c.log for c in change.logs if isinstance(c, ConfigureLog) and c.config.retention_ms == 9] == [1, 2]
    ledger.commit(change)
    assert ledger.catalog.topic("a").is_stamped
    with pytest.raises(InvalidTopicConfig):
        ledger.catalog.decide_configure(ledger.catalog.topic("a"), {"retention.ms": "never"})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250, "a b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        check_topic_name(name)


def test_names_that_meet_are_refused() -> None:
    ledger = Ledger()
    ledger.create(NewTopic("a.b", 1))
    with pytest.raises(InvalidTopicName, match=r"a\.b"):
        ledger.catalog.check_create(NewTopic("a_b", 1))
    with pytest.raises(TopicExists):
        ledger.catalog.check_create(NewTopic("a.b", 1))
    ledger.commit(ledger.catalog.decide_delete(ledger.catalog.topic("a.b")))
    ledger.catalog.check_create(NewTopic("a_b", 1))
    with pytest.raises(UnknownTopic):
        ledger.catalog.topic("a.b")


@given(namespaces=st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True))
def test_a_namespace_may_have_any_name(namespaces: list[str]) -> None:
    ledger = Ledger()
    ledger.create(*(NewTopic("a", 1, namespace=namespace) for namespace in namespaces))
    for namespace in namespaces:
        ledger.commit(ledger.catalog.decide_delete(ledger.catalog.topic("a", namespace)))
        assert not ledger.catalog.topics(namespace)
    assert not ledger.catalog.by_id
    assert not ledger.catalog.origins
    assert not ledger.recovered().by_id


def test_what_cannot_be_decoded_changes_nothing() -> None:
    ledger = Ledger()
    ledger.create(NewTopic("a", 1))
    before = shape(ledger.catalog)
    with pytest.raises(msgspec.DecodeError):
        ledger.catalog.prepare(b"topic/default/a", b"\xc1")
    assert shape(ledger.catalog) == before


NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c-1"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "expand", "configure"]), NAMES, st.integers(0, 4)), max_size=20
)


@given(steps=STEPS)
def test_a_recovered_catalog_is_the_same(steps: list[tuple[str, str, int]]) -> None:
    ledger = Ledger()
    for change in changes(ledger, steps):
        ledger.commit(change)
        assert shape(ledger.recovered()) == shape(ledger.catalog)
    used = [log for topic in ledger.catalog.topics().values() for log in topic.logs]
    assert len(used) == len(set(used))


def changes(ledger: Ledger, steps: list[tuple[str, str, int]]) -> Iterator[Decision]:
    catalog = ledger.catalog
    for verb, name, number in steps:
        try:
            if verb == "create":
                yield catalog.decide_create([NewTopic(name, number)], uuid.uuid4)
            elif verb == "delete":
                yield catalog.decide_delete(catalog.topic(name))
            elif verb == "expand":
                yield catalog.decide_expand(catalog.topic(name), number)
            else:
                yield catalog.decide_configure(catalog.topic(name), {"retention.ms": str(number)})
        except TopicError:
            continue
