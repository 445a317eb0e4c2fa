"""State: keys of a scope, changed with commits, loaded whole."""

from __future__ import annotations

import random

from mainstem.storage.contract import Append, Commit, Mutation
from tests.support.storage.batches import batch


async def test_an_unknown_scope_is_empty(engine):
    assert await engine.state("nothing") == {}


async def test_the_last_mutation_of_a_key_wins(engine):
    await engine.put("s", a=b"1", b=b"1")
    await engine.put("s", a=b"2")
    async for stage in engine.stages():
        assert await engine.state("s") == {b"a": b"2", b"b": b"1"}, stage


async def test_the_last_mutation_wins_within_a_commit_too(engine):
    await engine.commit_one(
        Commit(
            state=[
                Mutation("s", b"a", b"1"),
                Mutation("s", b"a", None),
                Mutation("s", b"a", b"2"),
                Mutation("s", b"b", b"1"),
                Mutation("s", b"b", None),
            ]
        )
    )
    async for stage in engine.stages():
        assert await engine.state("s") == {b"a": b"2"}, stage


async def test_none_deletes_and_an_empty_value_does_not(engine):
    await engine.put("s", a=b"1", b=b"1", c=b"1")
    await engine.put("s", a=None, b=b"", never=None)
    async for stage in engine.stages():
        assert await engine.state("s") == {b"b": b"", b"c": b"1"}, stage


async def test_a_deleted_key_stays_deleted_wherever_the_older_value_went(engine):
    await engine.put("s", a=b"1", b=b"1")
    await engine.seal()
    await engine.put("s", a=None)
    async for stage in engine.stages():
        assert await engine.state("s") == {b"b": b"1"}, stage
    await engine.put("s", a=b"3")
    async for stage in engine.stages():
        assert await engine.state("s") == {b"a": b"3", b"b": b"1"}, stage


async def test_a_scope_of_which_everything_was_deleted_is_empty(engine):
    await engine.put("s", a=b"1")
    await engine.put("s", a=None)
    async for stage in engine.stages():
        assert await engine.state("s") == {}, stage


async def test_scopes_are_apart(engine):
    await engine.put("s", k=b"1")
    await engine.put("s/t", k=b"2")
    await engine.put("", k=b"3")
    async for stage in engine.stages():
        assert [await engine.state(scope) for scope in ("s", "s/t", "", "t")] == [
            {b"k": b"1"},
            {b"k": b"2"},
            {b"k": b"3"},
            {},
        ], stage


async def test_keys_and_values_are_any_bytes(engine):
    entries = {b"": b"empty", b"\0": b"\0\0", bytes(range(256)): bytes(range(256)), b"k" * 1_000: b"v" * 100_000}
    scope = "sc\u00f6pe/\u6f22\u5b57"
    await engine.commit_one(Commit(state=[Mutation(scope, key, value) for key, value in entries.items()]))
    async for stage in engine.stages():
        assert await engine.state(scope) == entries, stage


async def test_a_snapshot_stays_as_it_was(engine):
    await engine.put("s", a=b"1", b=b"1")
    snapshot = await engine.load("s")
    await engine.put("s", a=b"2", b=None, c=b"3")
    await engine.settle()
    assert dict(snapshot.entries) == {b"a": b"1", b"b": b"1"}
    assert await engine.state("s") == {b"a": b"2", b"c": b"3"}


async def test_a_snapshot_is_of_the_moment_of_the_call(engine):
    """What is committed after `load` was called is not in it; what was committed before is, answered or not."""
    engine.commit([Commit(state=[Mutation("s", b"a", b"1")])])
    snapshot = engine.load("s")
    after = engine.commit([Commit(state=[Mutation("s", b"a", b"2")])])
    assert dict((await snapshot).entries) == {b"a": b"1"}
    await after
    assert await engine.state("s") == {b"a": b"2"}


async def test_it_changes_with_the_appends_of_its_commit(engine):
    """The broker's way to keep a count beside a log: both are there or neither is."""
    await engine.create(1)
    for n in range(1, 21):
        refused = n % 5 == 0
        content = b"bad" if refused else batch(b"%d" % n)
        await engine.commit([Commit(appends=[Append(1, content)], state=[Mutation("s", b"last", b"%d" % n)])])
        last = n - 1 if refused else n
        assert (await engine.values(1))[-1] == b"%d" % last
        assert await engine.state("s") == {b"last": b"%d" % last}
    async for stage in engine.stages():
        assert (await engine.values(1))[-1] == b"19", stage
        assert await engine.state("s") == {b"last": b"19"}, stage


async def test_much_state_over_many_merges(engine):
    randomness = random.Random(4)
    model: dict[str, dict[bytes, bytes]] = {"a": {}, "b": {}}
    for round_ in range(8):
        mutations = []
        for _ in range(1_000):
            scope, key = randomness.choice("ab"), b"%d" % randomness.randrange(2_000)
            value = None if randomness.random() < 0.3 else randomness.randbytes(30)
            mutations.append(Mutation(scope, key, value))
            if value is None:
                model[scope].pop(key, None)
            else:
                model[scope][key] = value
        await engine.commit_one(Commit(state=mutations))
        if round_ % 3 == 1:
            await engine.seal()
    async for stage in engine.stages():
        for scope, entries in model.items():
            assert await engine.state(scope) == entries, (stage, scope)
