"""POST /v1/topics/{name}/request: publish a record, and wait for its reply."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.requests import NoReply
from mainstem.model.errors import BatchTooLarge, InvalidRecords
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.records.documents import to_record
from mainstem.protocols.http.mapping.routing.requests import ReplyDocument, RequestQuery, RequestWish, describe_reply
from mainstem.protocols.http.mapping.topic_documents import TopicPath

OK = 200
REQUEST = "/v1/topics/{name}/request"


class RequestHandlers:
    """Requests: to a topic or a queue, which has a topic of its name."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        refusals = (
            errors.UnknownTopic, errors.UnknownPartition, errors.RefusedRecord, errors.RecordTooLarge, errors.NoReply,
            errors.StorageFull, errors.Overloaded, errors.Unavailable,
        )  # fmt: skip
        return [
            Route("POST", REQUEST, self.request, {OK: ReplyDocument}, steps=TopicPath, query=RequestQuery,
                  content=RequestWish, refusals=refusals),
        ]  # fmt: skip

    async def request(self, call: Call) -> ReplyDocument:
        """Publish a record with `reply-to` and `correlation-id`, and answer with the first reply to it."""
        topic = self._broker.topics.get(call.path.name, call.query.namespace)
        wish: RequestWish = call.content
        record = to_record(wish.record(), topic, "", self._broker.clock.now_ms())
        try:
            return describe_reply(await self._broker.requests.ask(topic, record, call.query.timeout_ms / 1000))
        except NoReply as error:
            raise errors.NoReply(str(error)) from None
        except BatchTooLarge as error:
            raise errors.RecordTooLarge(str(error)) from None
        except InvalidRecords as error:
            raise errors.RefusedRecord(str(error), "") from None
