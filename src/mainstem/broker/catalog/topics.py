"""Administration of topics.

Changes of the catalog are made one after the other, and each is applied to memory when it is durable: so a caller that looks at
the catalog sees what survives, and a change that the log refuses leaves no trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from mainstem.coordination.catalog.catalog import (
    DEFAULT_NAMESPACE,
    SCOPE,
    Catalog,
    Effect,
    NewTopic,
    Topic,
    check_topic_name,
)
from mainstem.coordination.catalog.topic_config import OPTIONS, TABLE, TopicOption, check_topic_option
from mainstem.coordination.decision import Decision
from mainstem.coordination.errors import TopicError, TopicExists, UnknownTopic
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Engine, Mutation

__all__ = [
    "DEFAULT_NAMESPACE",
    "OPTIONS",
    "TABLE",
    "NewTopic",
    "Topic",
    "TopicOption",
    "Topics",
    "check_topic_name",
    "check_topic_option",
]


def _alone(_: Topic) -> tuple[Sequence[Mutation], Callable[[], None]]:
    return (), lambda: None


def _ignore(_: Topic) -> None:
    pass


class Topics:
    """The topics of a broker."""

    def __init__(self, engine: Engine, catalog: Catalog, new_id: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._engine = engine
        self._catalog = catalog
        self._new_id = new_id
        self._changes_lock = asyncio.Lock()
        self.by_id: Mapping[uuid.UUID, Topic] = catalog.by_id
        self.on_delete: Callable[[Topic], tuple[Sequence[Mutation], Callable[[], None]]] = _alone
        """What else is to be committed with the end of a topic, and what is to be done once it has ended."""
        self.on_expand: Callable[[Topic], None] = _ignore

    # Questions

    def named(self, namespace: str = DEFAULT_NAMESPACE) -> Mapping[str, Topic]:
        """The topics of a namespace by name; stays current."""
        return self._catalog.topics(namespace)

    def get(self, name: str, namespace: str = DEFAULT_NAMESPACE) -> Topic:
        """One of them. Raises UnknownTopic."""
        return self._catalog.topic(name, namespace)

    @property
    def version(self) -> int:
        """Grows with every change of the catalog."""
        return self._catalog.changes

    def origin(self, log: int) -> tuple[Topic, int] | None:
        """The topic and the partition that a log is of; None if it is gone."""
        found = self._catalog.origins.get(log)
        return None if found is None else (self.by_id[found[0]], found[1])

    def check_create(self, wish: NewTopic) -> None:
        """Whether such a topic could be created now. Raises kinds of TopicError."""
        self._catalog.check_create(wish)

    node = 1
    """The number of the broker among those that share the log: configurations of single brokers have it as their name."""

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """What was set of a node, or by the empty name of all, while the broker ran."""
        return self._catalog.broker_configs.get(name, {})

    def defaults(self) -> Mapping[str, str]:
        """What of that holds for topics that do not say otherwise, by the names of topic configurations."""
        return self._catalog.topic_defaults

    def tables(self) -> list[Topic]:
        """Those that are kept as tables, in whatever order."""
        return [self.by_id[found] for found in self._catalog.tables]

    # Changes

    async def create(self, wishes: Sequence[NewTopic]) -> list[Topic | MainstemError]:
        """Create each, or say why not; those that can be are created together."""
        async with self._changes_lock:
            outcomes: list[Topic | MainstemError | None] = []
            accepted: list[NewTopic] = []
            for wish in wishes:
                try:
                    if any(wish.name == other.name and wish.namespace == other.namespace for other in accepted):
                        raise TopicExists(f"Topic '{wish.name}' is asked for twice.")
                    self._catalog.check_create(wish)
                    accepted.append(wish)
                    outcomes.append(None)
                except TopicError as refusal:
                    outcomes.append(refusal)
            refusal_of_all: MainstemError | None = None
            if accepted:
                try:
                    await self._commit(self._catalog.decide_create(accepted, self._new_id))
                except MainstemError as error:
                    refusal_of_all = error
            return [
                outcome if outcome is not None else refusal_of_all or self._catalog.topic(wish.name, wish.namespace)
                for wish, outcome in zip(wishes, outcomes, strict=True)
            ]

    async def ensure(self, wish: NewTopic) -> Topic:
        """The topic of this name, created if there is none. Raises kinds of MainstemError."""
        async with self._changes_lock:
            known = self._catalog.topics(wish.namespace).get(wish.name)
            if known is None:
                await self._commit(self._catalog.decide_create([wish], self._new_id))
                known = self._catalog.topic(wish.name, wish.namespace)
            return known

    async def delete(self, topic: Topic) -> None:
        """Remove a topic with all that is in it."""
        async with self._changes_lock:
            current = self._current(topic)
            state, finish = self.on_delete(current)
            await self._commit(self._catalog.decide_delete(current), state)
            finish()

    async def expand(
        self, name: str, partitions: int, *, dry_run: bool = False, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Add partitions until there are `partitions`."""
        async with self._changes_lock:
            change = self._catalog.decide_expand(self._catalog.topic(name, namespace), partitions)
            if not dry_run:
                await self._commit(change)
                self.on_expand(self._catalog.topic(name, namespace))

    async def append_log(self, namespace: str, name: str, log: int) -> None:
        """Show a log that was made elsewhere as the last partition of a topic, if there is one of this name and it does not."""
        async with self._changes_lock:
            topic = self._catalog.topics(namespace).get(name)
            if topic is not None and log not in topic.logs:
                await self._commit(self._catalog.decide_append_log(topic, log))

    async def configure(
        self, name: str, revise: Callable[[dict[str, str]], Mapping[str, str]], *, dry_run: bool = False
    ) -> None:
        """Replace what was set by what `revise` makes of it."""
        async with self._changes_lock:
            topic = self._catalog.topic(name)
            change = self._catalog.decide_configure(topic, revise(dict(topic.configs)))
            if not dry_run:
                await self._commit(change)

    async def configure_broker(
        self, name: str, revise: Callable[[dict[str, str]], Mapping[str, str]], *, dry_run: bool = False
    ) -> None:
        """Replace what was set of a node, or by the empty name of all, by what `revise` makes of it."""
        async with self._changes_lock:
            change = self._catalog.decide_broker_config(name, revise(dict(self.broker_configs(name))))
            if not dry_run:
                await self._commit(change)

    async def alter(
        self, name: str, partitions: int | None, revise: Callable[[dict[str, str]], Mapping[str, str]]
    ) -> None:
        """Both by one commit; None, or as many partitions as there are: the configuration alone."""
        async with self._changes_lock:
            topic = self._catalog.topic(name)
            configs = revise(dict(topic.configs))
            if partitions in (None, len(topic.logs)):
                if configs != topic.configs:
                    await self._commit(self._catalog.decide_configure(topic, configs))
            elif partitions is not None:
                await self._commit(self._catalog.decide_alter(topic, partitions, configs))

    def _current(self, topic: Topic) -> Topic:
        """The topic as it is by now; another one of the same name is not meant."""
        current = self._catalog.by_id.get(topic.id)
        if current is None:
            raise UnknownTopic(f"topic {topic.name}")
        return current

    @contextlib.asynccontextmanager
    async def reserve(self, namespace: str, name: str | None) -> AsyncIterator[Catalog]:
        """Keep others from making a topic of this name meanwhile. Waits for the present holder."""
        async with self._changes_lock:
            self._catalog.reserved.add((namespace, name or ""))
        try:
            yield self._catalog
        finally:
            self._catalog.reserved.discard((namespace, name or ""))

    def decide_delete(self, topic: Topic) -> list[Mutation]:
        """That there is no such topic any more, without a word about its logs: prepare it, commit it, then apply it."""
        return self._catalog.decide_delete(topic).state

    def prepare(self, state: Iterable[Mutation]) -> Effect:
        """Decode changes of the catalog that are committed elsewhere; call the effect once they are."""
        effects = [self._catalog.prepare(one.key, one.value) for one in state if one.scope == SCOPE]

        def apply() -> None:
            for effect in effects:
                effect()

        return apply

    async def _commit(self, change: Decision, more: Sequence[Mutation] = ()) -> None:
        apply = self.prepare(change.state)
        await self._engine.alter(change.logs, [*change.state, *more])
        apply()
