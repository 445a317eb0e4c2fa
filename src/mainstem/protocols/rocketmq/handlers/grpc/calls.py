"""Calls as their handlers meet them: one request and one answer, or one request and many answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from mainstem.broker.errors import GroupError, InvalidTopicName, NotScheduled, ScheduleError, UnknownTopic
from mainstem.model.errors import BatchTooLarge, InvalidBatch, MainstemError, Overloaded, UnavailableError
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import Code
from mainstem.protocols.rocketmq.errors import MalformedFrame, RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused
from mainstem.protocols.rocketmq.mapping.names import check_group, check_name
from mainstem.wire.http2.grpc import GrpcCall, GrpcStatus

log = logging.getLogger(__name__)

CLIENT_ID = "x-mq-client-id"
Handler: TypeAlias = Callable[[GrpcCall, Any], "Coroutine[Any, Any, Any] | Any | None"]
"""Answers the response, at once or later; None: it answers by itself."""
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
Refused: TypeAlias = (CallRefused, RequestRefused, MainstemError)  # type: ignore[valid-type]

_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (UnknownTopic, Code.TOPIC_NOT_FOUND),
    (InvalidTopicName, Code.ILLEGAL_TOPIC),
    (NotScheduled, Code.NOT_FOUND),
    (ScheduleError, Code.ILLEGAL_DELIVERY_TIME),
    (GroupError, Code.ILLEGAL_CONSUMER_GROUP),
    (BatchTooLarge, Code.MESSAGE_BODY_TOO_LARGE),
    (InvalidBatch, Code.BAD_REQUEST),
    (Overloaded, Code.TOO_MANY_REQUESTS),
    (UnavailableError, Code.HA_NOT_AVAILABLE),
)


_OF_RESPONSES = {
    ResponseCode.MESSAGE_ILLEGAL: Code.ILLEGAL_TOPIC,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
}


def code_of(error: BaseException) -> Code:
    """The code for a refusal."""
    if isinstance(error, CallRefused):
        return error.code
    if isinstance(error, RequestRefused):
        return _OF_RESPONSES.get(error.code, Code.BAD_REQUEST)
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL_SERVER_ERROR)


def status(code: Code = Code.OK, text: str = "OK") -> Any:
    """As a message."""
    return schema.new("Status", code=code, message=text)


def refusal(error: BaseException) -> Any:
    """What went wrong, as a status."""
    return status(code_of(error), str(error))


def topic_name(resource: Any) -> str:
    """With its namespace. Raises CallRefused."""
    return _named(resource, check_name, Code.ILLEGAL_TOPIC)


def group_name(resource: Any) -> str:
    """With its namespace. Raises CallRefused."""
    return _named(resource, check_group, Code.ILLEGAL_CONSUMER_GROUP)


def _named(resource: Any, check: Callable[[str], str], code: Code) -> str:
    name = resource.name
    try:
        return check(f"{resource.resource_namespace}%{name}" if resource.resource_namespace and name else name)
    except RequestRefused as error:
        raise CallRefused(code, str(error)) from None


class Unary:
    """A method with one request."""

    def __init__(self, request: str, response: str, handle: Handler, spawn: Spawn) -> None:
        self._request = request
        self._response = response
        self._handle = handle
        self._spawn = spawn

    def message(self, call: GrpcCall, data: bytes) -> None:
        """Deal with it."""
        if call.context is not None:
            call.finish(GrpcStatus.INVALID_ARGUMENT, "one request is expected")
            return
        call.context = self
        try:
            answer = self._handle(call, schema.decode(self._request, data))
        except MalformedFrame as error:
            call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
        except Refused as error:
            self._answer(call, schema.new(self._response, status=refusal(error)))
        else:
            if asyncio.iscoroutine(answer):
                self._spawn(self._finish(call, answer))
            elif answer is not None:
                self._answer(call, answer)

    async def _finish(self, call: GrpcCall, work: Awaitable[Any]) -> None:
        try:
            answer = await work
        except Refused as error:
            answer = schema.new(self._response, status=refusal(error))
        except Exception:
            log.exception("%s failed for a fault of the broker", call.path)
            text = "a fault of the broker; its log says more"
            answer = schema.new(self._response, status=status(Code.INTERNAL_SERVER_ERROR, text))
        if answer is not None:
            self._answer(call, answer)

    def _answer(self, call: GrpcCall, answer: Any) -> None:
        call.send(schema.encode(answer))
        call.finish()

    def ended(self, call: GrpcCall) -> None:
        """Without a request there is nothing to answer."""
        if call.context is None:
            call.finish(GrpcStatus.INVALID_ARGUMENT, "a request is missing")

    def cancelled(self, call: GrpcCall) -> None:
        """Who waits for messages waits no more; other work goes on, and nobody hears of it."""
        if isinstance(call.context, asyncio.Task):
            call.context.cancel()
