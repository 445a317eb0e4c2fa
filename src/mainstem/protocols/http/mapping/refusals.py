"""What the broker refuses, as HTTP says it."""

from __future__ import annotations

from mainstem.broker import errors as broker
from mainstem.model import errors as model
from mainstem.protocols.http import errors as http

REFUSALS: dict[type[model.MainstemError], type[http.HttpError]] = {
    broker.UnknownTopic: http.UnknownTopic,
    broker.TopicExists: http.TopicExists,
    broker.InvalidTopicName: http.InvalidTopicName,
    broker.InvalidPartitionCount: http.InvalidPartitionCount,
    broker.InvalidTopicConfig: http.InvalidConfig,
    broker.UnknownGroup: http.UnknownGroup,
    broker.GroupNotEmpty: http.GroupNotEmpty,
    broker.UnknownStage: http.UnknownStage,
    broker.IncompleteStage: http.IncompleteStage,
    broker.StaleBatch: http.StaleBatch,
    broker.TooMuchScheduled: http.TooMuchScheduled,
    broker.StageError: http.InvalidStage,
    model.InvalidBatch: http.RefusedBatch,
    broker.UnknownAcquisition: http.UnknownAcquisition,
    broker.AcquisitionReleased: http.AcquisitionReleased,
    broker.InvalidVerdict: http.InvalidVerdict,
    broker.UnsuitableSource: http.UnsuitableSource,
    broker.ScheduleError: http.InvalidSchedule,
    broker.NotScheduled: http.NotScheduled,
    broker.DeploymentError: http.InvalidPipeline,
    broker.UnknownPipeline: http.UnknownPipeline,
    broker.BuiltInPipeline: http.BuiltInPipeline,
    broker.StaleLease: http.StaleLease,
    broker.UnknownQueue: http.UnknownQueue,
    broker.QueueLocked: http.QueueBusy,
    broker.QueueBusy: http.QueueBusy,
    broker.QueueInUse: http.QueueBusy,
    broker.QueueNotEmpty: http.QueueBusy,
    broker.PropertiesDiffer: http.QueueDiffers,
    broker.InvalidQueue: http.InvalidQueue,
    broker.UnknownNamespace: http.UnknownNamespace,
    broker.UnknownExchange: http.UnknownExchange,
    broker.ExchangeDiffers: http.ExchangeDiffers,
    broker.ExchangeInUse: http.ExchangeInUse,
    broker.UnknownUser: http.UnknownUser,
    broker.InvalidEntry: http.InvalidUser,
    broker.InvalidTopicRule: http.InvalidRule,
    broker.RouteError: http.InvalidExchange,
    model.UnknownLog: http.UnknownTopic,  # deleted while it was looked at
    model.OffsetOutOfRange: http.OffsetOutOfRange,
    model.CommitTooLarge: http.InvalidPartitionCount,  # the only commit of ours that can grow
    model.StorageFull: http.StorageFull,
    model.Overloaded: http.Overloaded,
    model.UnavailableError: http.Unavailable,
    model.OwnershipLost: http.Unavailable,
    model.DiskError: http.DiskFailure,
}
"""The nearest base counts. A kind that is not here is not expected: a bug of ours."""


def refusal_of(error: model.MainstemError) -> http.HttpError | None:
    """The answer to an error of the broker, if it is one that a client can meet."""
    for kind in type(error).__mro__:
        if kind in REFUSALS:
            return REFUSALS[kind](str(error))
    return None
