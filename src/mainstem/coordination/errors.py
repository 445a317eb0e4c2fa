"""What cannot be done with topics, groups and producers, named by the fact.

PeerError
|-- InvalidNamePattern, InvalidQuota, InvalidBrokerConfig, InvalidClientMetrics
|-- TopicError
|   |-- UnknownTopic, TopicExists, InvalidTopicName
|   |-- InvalidPartitionCount
|   `-- InvalidTopicConfig
|-- GroupError
|   |-- UnknownGroup, GroupNotEmpty, GroupInUse, InvalidGroupName, InconsistentProtocol, GroupFull
|   |-- UnknownMember, MemberIdRequired, FencedInstance
|   |-- StaleGeneration, RebalanceUnderWay, InvalidSessionTimeout
|   |-- FencedMember, StaleMember, InstanceInUse, UnknownAssignor
|   |-- InvalidStreamsTopology, TopologyDiffers, UnknownTask
|   |-- OffsetNoteTooLarge
|   `-- NotLeased, InvalidGroupConfig
|-- QueueError
|   |-- UnknownQueue, PropertiesDiffer, InvalidQueue
|   `-- QueueLocked, QueueBusy, QueueInUse, QueueNotEmpty
|-- TransactionError
|   |-- FencedProducer, StaleProducerEpoch, UnknownProducer
|   |-- InvalidTransactionState, TransactionUnderWay
|   |-- UnknownTransaction
|   `-- InvalidTransactionTimeout
|-- StageError
|   |-- UnknownStage, StagePositionMissed
|   |-- IncompleteStage, StaleBatch
|   |-- TooMuchScheduled
|   `-- InvalidStagedBatch
`-- AcquisitionError
    |-- UnknownAcquisition, AcquisitionReleased
    |-- InvalidVerdict
    `-- UnsuitableSource
TooManyStages and TooManyAcquisitions are kinds of Overloaded.
"""

from mainstem.model.errors import Overloaded, PeerError


class InvalidNamePattern(PeerError):
    """Not a regular expression, or one that would cost too much."""


class InvalidQuota(PeerError):
    """Nobody can have such a limit."""


class InvalidBrokerConfig(PeerError):
    """Not to be changed while the broker runs, or not to this value."""


class InvalidClientMetrics(PeerError):
    """Clients cannot be asked for measurements like this."""


class TopicError(PeerError):
    """Something about a topic cannot be."""


class UnknownTopic(TopicError):
    """No such topic, or no such partition of it."""


class TopicExists(TopicError):
    """The name is taken."""


class InvalidTopicName(TopicError):
    """The name cannot be a topic's."""


class InvalidPartitionCount(TopicError):
    """Not a number of partitions that the topic can have."""


class InvalidTopicConfig(TopicError):
    """The configuration is unknown, or its value is not kept here."""


class GroupError(PeerError):
    """Something about a group cannot be."""


class UnknownGroup(GroupError):
    """No such group."""


class InvalidGroupName(GroupError):
    """The name cannot be a group's."""


class GroupNotEmpty(GroupError):
    """The group has members."""


class GroupInUse(GroupError):
    """A member of the group subscribes to the topic."""


class GroupFull(GroupError):
    """The group has as many members as it may have."""


class InconsistentProtocol(GroupError):
    """No way of sharing partitions is known to all members, or the group is of another kind."""


class UnknownMember(GroupError):
    """Not a member, or not any more."""


class MemberIdRequired(GroupError):
    """A newcomer is to join again, with the id that it is given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id}")
        self.member_id = member_id


class FencedInstance(GroupError):
    """A newer process has taken the place of this static member."""


class StaleGeneration(GroupError):
    """Another generation is current."""


class RebalanceUnderWay(GroupError):
    """Members are to join again first."""


class InvalidSessionTimeout(GroupError):
    """Shorter or longer than allowed."""


class FencedMember(GroupError):
    """The member's epoch is not the one that it was told: it must join anew."""


class StaleMember(GroupError):
    """The member's epoch is not current: it should learn the current one and try again."""


class InstanceInUse(GroupError):
    """The static member of this name is in the group and has not left."""


class UnknownAssignor(GroupError):
    """There is no such way of assigning."""


class InvalidStreamsTopology(GroupError):
    """A streams application cannot have such a topology."""


class TopologyDiffers(GroupError):
    """The streams group has another topology."""


class UnknownTask(GroupError):
    """The topology of the streams group has no such task."""


class OffsetNoteTooLarge(GroupError):
    """The text beside a committed offset is too long."""


class NotLeased(GroupError):
    """Nobody works on the record, or somebody else does."""


class InvalidGroupConfig(GroupError):
    """A group has no such setting, or it cannot have this value."""


class QueueError(PeerError):
    """Something about a queue cannot be."""


class UnknownQueue(QueueError):
    """No such queue."""


class InvalidQueue(QueueError):
    """Properties that no queue can have together."""


class PropertiesDiffer(QueueError):
    """The queue is there, with another property."""

    def __init__(self, field: str, wanted: object, present: object) -> None:
        super().__init__(f"{field}: {wanted!r} was asked for, {present!r} it is")
        self.field = field
        self.wanted = wanted
        self.present = present


class QueueLocked(QueueError):
    """The queue belongs to somebody else alone."""


class QueueBusy(QueueError):
    """One consumer has the queue to itself, or wants it and there are others."""


class QueueInUse(QueueError):
    """The queue has consumers."""


class QueueNotEmpty(QueueError):
    """There are messages in the queue."""


class TransactionError(PeerError):
    """Something about a transaction cannot be."""


class FencedProducer(TransactionError):
    """A newer producer with the same transactional id has begun."""


class StaleProducerEpoch(TransactionError):
    """The epoch is not the current one of this producer."""


class UnknownProducer(TransactionError):
    """The producer id is not the one of this transactional id."""


class UnknownTransaction(TransactionError):
    """Nothing is known by this transactional id."""


class InvalidTransactionState(TransactionError):
    """Not now: there is no transaction, or it ends in the other way."""


class TransactionUnderWay(TransactionError):
    """The last transaction is still being ended; the same request may succeed in a moment."""


class InvalidTransactionTimeout(TransactionError):
    """Longer than allowed, or not a time."""


class StageError(PeerError):
    """Something about a stage cannot be."""


class UnknownStage(StageError):
    """No such stage: never written, expired, or published with its batch."""


class StagePositionMissed(StageError):
    """A batch does not begin where the stage ends: one before it is missing."""


class InvalidStagedBatch(StageError):
    """A stage takes plain batches only: neither transactional nor of an idempotent producer."""


class IncompleteStage(StageError):
    """A stage does not end where its writer says, or is being published."""


class StaleBatch(StageError):
    """A later batch of the sink is published already: the checkpoint of its query was rewound."""


class TooMuchScheduled(StageError):
    """A batch has more records with a due time than one commit can hold."""


class TooManyStages(Overloaded):
    """More stages are open than is allowed."""


class AcquisitionError(PeerError):
    """Something about an acquisition cannot be."""


class UnknownAcquisition(AcquisitionError):
    """No such acquisition: it was never pinned and has expired, or its query has gone on."""


class AcquisitionReleased(AcquisitionError):
    """Somebody has released it: its records are free for others."""


class InvalidVerdict(AcquisitionError):
    """A verdict on a record that the acquisition does not hold, or a second one."""


class UnsuitableSource(AcquisitionError):
    """A queue whose messages cannot be acquired: a stream, or one that serves in an order of its own."""


class TooManyAcquisitions(Overloaded):
    """More acquisitions are open than is allowed."""


class SubscriptionError(PeerError):
    """Something about a subscription of a topic cannot be."""


class UnknownSubscription(SubscriptionError):
    """No such subscription."""


class SubscriptionExists(SubscriptionError):
    """There is one of this name already."""


class SubscriptionBusy(SubscriptionError):
    """Consumers are attached, or one has it to itself."""


class SettlementConflict(SubscriptionError):
    """Another transaction that has not ended settles the record, or nobody holds it."""
