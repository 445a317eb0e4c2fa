"""Features of the cluster, as ApiVersions announces them and UpdateFeatures compares them. None can be changed."""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """One feature: which levels are known, and which one holds. At level 0 it is off."""

    name: str
    lowest: int
    highest: int
    level: int


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        # Replicas that may lead (KIP-966): the one replica always may.
        Feature("eligible.leader.replicas.version", 0, 1, 1),
        # The broker can assign partitions to members (KIP-848).
        Feature("group.version", 0, 1, 1),
        # The voters are fixed. Level 1 would be voters that change (KIP-853).
        Feature("kraft.version", 0, 0, 0),
        # Kafka 3.3 to 4.3. Tools learn from it which release a cluster has.
        Feature("metadata.version", 7, 30, 30),
        # Share groups (KIP-932).
        Feature("share.version", 0, 1, 1),
        # Streams groups (KIP-1071).
        Feature("streams.version", 0, 1, 1),
        # Partitions take part in a transaction by being written to, and each transaction has its own epoch (KIP-890).
        Feature("transaction.version", 0, 2, 2),
    )
}
