"""What a Prometheus server reads, and a group that is behind."""

from prometheus_client.parser import text_string_to_metric_families

from mainstem.broker.groups.groups import CommittedOffset, TopicPlace
from tests.support.clients.http_client import NOW_MS, Client


async def samples(client: Client) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and labels, as Prometheus' own parser reads them."""
    reply = await client.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(reply.body.decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


async def behind(client: Client, group: str, topic: str, partitions: int = 1) -> None:
    topic_id = client.broker.topics.get(topic).id
    offset = CommittedOffset(0, -1, "", NOW_MS)
    await client.broker.groups.commit(group, {TopicPlace(topic_id, number): offset for number in range(partitions)})
