"""Live numbers: rings of constant size, rates of topics, and what has come since the last answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.live.rings import MINUTES, SECONDS, Ring
from mainstem.broker.live.topic_rates import TopicRates
from tests.support.clients.http_client import Client, with_client


@given(st.integers(0, 3 * SECONDS), st.integers(-1, 3 * SECONDS))
def test_a_ring_keeps_the_last_seconds_and_minutes(count: int, after: int) -> None:
    ring = Ring()
    for tick in range(count):
        ring.put(tick, tick)
    wanted = list(range(count))[-SECONDS:]
    assert ring.seconds(after, count - 1) == [tick for tick in wanted if tick > after]
    minutes = ring.minutes(count - 1)
    assert minutes == [60 * number + 29.5 for number in range(count // 60)][-MINUTES:]


@with_client
async def test_live_numbers_say_what_is_new(client: Client) -> None:
    live = client.broker.live
    await client.create("a")
    await client.create("b")
    live.sample()
    await client.publish("a", 1, 2, 3)
    await client.publish("b", 1)
    await client.get("/v1/node")
    live._sampled -= 1.0
    live.sample()
    page = await client.get("/v1/live")
    assert (page["sequence"], page["interval_ms"]) == (1, 1_000)
    assert page["topics"] == {"a": [None, 3.0], "b": [None, 1.0]}
    assert list(page["topics"]) == ["a", "b"], "the busiest first"
    assert page["series"]["records_in"][1] == pytest.approx(4, rel=0.1)
    assert page["series"]["connections.http"] == [2.0, 2.0]
    assert page["series"]["requests.http"][1] > 0, "operations of HTTP are counted too"
    later = await client.get("/v1/live?after=1")
    assert all(values == [] for values in later["series"].values())
    assert (await client.get("/v1/live?resolution=minute"))["series"]["records_in"] == []
    assert len((await client.get("/v1/live?topics=1"))["topics"]) == 1
    assert (await client.ask("GET", "/v1/live?after=x")).status == 400


@with_client
async def test_only_the_busiest_topics_have_a_history(client: Client) -> None:
    rates = TopicRates(client.broker.topics._engine, client.broker.topics, busiest=3)
    for number in range(6):
        await client.create(f"t{number}")
    rates.sample(0)
    for number in range(6):
        await client.publish(f"t{number}", *range(1, 2 + number))
    rates.sample(1)
    assert (rates.total, sorted(rates.rings)) == (21.0, ["t3", "t4", "t5"])
    await client.ask("DELETE", "/v1/topics/t5")
    rates.sample(2)
    rates.sample(2_000)
    assert rates.rings == {}, "what is silent for long is forgotten"
