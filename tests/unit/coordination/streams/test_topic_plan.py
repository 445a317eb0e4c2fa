"""Which internal topics an application needs, and how many tasks it has."""

import pytest

from mainstem.coordination.errors import InvalidStreamsTopology
from mainstem.coordination.groups.streams.heartbeats import StatusCode
from mainstem.coordination.groups.streams.topic_plan import TASKS_MAX, TopicPlan, plan_topics
from mainstem.coordination.groups.streams.topology import StreamsTopology
from tests.support.worlds.applications import COUNTING, application, internal, part, topics


def status_of(plan: TopicPlan) -> StatusCode | None:
    return None if plan.status is None else plan.status.code


def test_repartition_and_changelog_topics_follow_their_sources() -> None:
    plan = plan_topics(COUNTING, topics(words=6))
    assert status_of(plan) is StatusCode.MISSING_INTERNAL_TOPICS
    assert plan.missing == (internal("by-word", 6), internal("counts", 6, **{"cleanup.policy": "compact"}))
    assert plan.task_counts == {"0": 6, "1": 6}


def test_with_all_topics_nothing_is_missing() -> None:
    plan = plan_topics(COUNTING, topics(**{"words": 6, "by-word": 6, "counts": 6}))
    assert plan.status is None
    assert plan.missing == ()
    assert plan.internal["counts"].partitions == 6


def test_without_its_source_nothing_can_be_said() -> None:
    plan = plan_topics(COUNTING, topics(**{"by-word": 6}))
    assert status_of(plan) is StatusCode.MISSING_SOURCE_TOPICS
    assert plan.status is not None
    assert "words" in plan.status.detail
    assert plan.missing == ()
    assert plan.task_counts == {}


def test_a_long_list_of_missing_topics_is_cut() -> None:
    plan = plan_topics(application(part("0", ("a", "b", "c", "d", "e"))), topics())
    assert plan.status is not None
    assert plan.status.detail == "Source topics a, b, c and 2 additional topics are missing."


@pytest.mark.parametrize("name", ["by-word", "counts"])
def test_an_internal_topic_with_another_size_is_refused(name: str) -> None:
    plan = plan_topics(COUNTING, topics(**{"words": 6, name: 5}))
    assert status_of(plan) is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert plan.status is not None
    assert "expected 6, found 5" in plan.status.detail
    assert plan.missing == ()


def test_sizes_follow_through_several_repartitions() -> None:
    chain = application(
        part("0", ("in",), sinks=("r1",)),
        part("2", repartition=(internal("r2"),), changelogs=(internal("log"),)),
        part("1", repartition=(internal("r1"),), sinks=("r2",)),
    )
    plan = plan_topics(chain, topics(**{"in": 3}))
    assert plan.task_counts == {"0": 3, "1": 3, "2": 3}
    assert [topic.partitions for topic in plan.missing] == [3, 3, 3]


def test_the_largest_source_decides() -> None:
    joined = application(part("0", ("small", "large"), changelogs=(internal("log"),)))
    plan = plan_topics(joined, topics(small=2, large=5))
    assert plan.task_counts == {"0": 5}
    assert plan.missing[0].partitions == 5


def join(*copartition: str, left: int = 0) -> StreamsTopology:
    return application(
        part("0", ("orders",), sinks=("left",)),
        part("1", ("customers",), repartition=(internal("left", left),), together=(copartition,)),
    )


def test_a_repartition_topic_gets_the_size_of_the_topic_it_is_joined_with() -> None:
    plan = plan_topics(join("customers", "left"), topics(orders=6, customers=4))
    assert plan.missing == (internal("left", 4),)
    assert plan.task_counts == {"0": 6, "1": 4}


def test_one_of_fixed_size_must_have_it() -> None:
    plan = plan_topics(join("customers", "left", left=3), topics(orders=6, customers=4))
    assert status_of(plan) is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert plan_topics(join("customers", "left", left=4), topics(orders=6, customers=4)).missing[0].partitions == 4


def test_topics_that_are_joined_must_have_the_same_size() -> None:
    topology = application(part("0", ("a", "b"), together=(("a", "b"),)))
    assert status_of(plan_topics(topology, topics(a=2, b=3))) is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert plan_topics(topology, topics(a=2, b=2)).status is None


def test_two_repartition_topics_that_are_joined_both_get_the_larger_size() -> None:
    topology = application(
        part("0", ("a",), sinks=("ra",)),
        part("1", ("b",), sinks=("rb",)),
        part("2", repartition=(internal("ra"), internal("rb")), together=(("ra", "rb"),)),
    )
    plan = plan_topics(topology, topics(a=2, b=7))
    assert [topic.partitions for topic in plan.missing] == [7, 7]


@pytest.mark.parametrize(
    "topology",
    [
        application(part("0", repartition=(internal("r"),), sinks=("r",))),
        application(part("0", ("in",)), part("1", repartition=(internal("r"),))),
        application(part("0", ("in",), together=(("other",),))),
    ],
    ids=["circle", "nobody writes it", "no source"],
)
def test_a_topology_without_an_answer_is_refused(topology: StreamsTopology) -> None:
    with pytest.raises(InvalidStreamsTopology):
        plan_topics(topology, topics(**{"in": 3}))


@pytest.mark.parametrize(
    "parts",
    [
        [part("0", ("a",)), part("0", ("b",))],
        [part("0")],
        [part("0", ("a",), changelogs=(internal("log", 3),))],
        [part("0", ("a",), repartition=(internal("r", -1),))],
    ],
    ids=["two of one id", "no source", "changelog of fixed size", "negative size"],
)
def test_a_topology_that_cannot_be_is_refused(parts: list[object]) -> None:
    with pytest.raises(InvalidStreamsTopology):
        application(*parts)  # type: ignore[arg-type]


def test_there_is_a_limit_of_tasks() -> None:
    with pytest.raises(InvalidStreamsTopology):
        plan_topics(application(part("0", ("in",)), part("1", ("in",))), topics(**{"in": TASKS_MAX}))
