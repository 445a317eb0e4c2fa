"""The methods of one connection."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.codec.grpc.codes import Code
from mainstem.protocols.rocketmq.codec.grpc.schema import SERVICE
from mainstem.protocols.rocketmq.handlers.grpc.calls import Handler, Spawn, Unary
from mainstem.protocols.rocketmq.handlers.grpc.receiving import Groups, ReceiveCalls
from mainstem.protocols.rocketmq.handlers.grpc.routes import RouteCalls, Telemetry
from mainstem.protocols.rocketmq.handlers.grpc.sending import SendCalls
from mainstem.protocols.rocketmq.handlers.grpc.transactions import Transactions
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused
from mainstem.protocols.rocketmq.session.settings import GrpcSettings
from mainstem.wire.http2.grpc import GrpcCall, GrpcConnection, GrpcStatus, Method

OTHERS = frozenset({"PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription"})
"""Methods that are known, and answered with a status that says so."""


def _refuse(call: GrpcCall, request: object) -> object:
    raise CallRefused(Code.NOT_IMPLEMENTED, f"{call.path.rpartition('/')[2]} is not supported")


def _refuse_stranger(call: GrpcCall, request: object) -> object:
    raise CallRefused(Code.UNAUTHORIZED, "a login is needed, and clients of RocketMQ cannot give one yet")


class MessagingService:
    """What calls of one connection find."""

    def __init__(
        self,
        broker: Broker,
        settings: GrpcSettings,
        groups: Groups,
        transactions: Transactions,
        advertised: Callable[[], str],
        spawn: Spawn,
        connection: GrpcConnection,
        may_enter: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._may_enter = may_enter
        routes = RouteCalls(broker, settings, advertised)
        self._sends = SendCalls(broker, settings, routes, transactions)
        self._receives = ReceiveCalls(broker, groups, routes)
        self._telemetry = Telemetry(settings, groups.is_ordered, transactions)
        unary: dict[str, tuple[str, Handler]] = {
            "QueryRoute": ("QueryRouteResponse", routes.query_route),
            "QueryAssignment": ("QueryAssignmentResponse", routes.query_assignment),
            "Heartbeat": ("StatusResponse", routes.heartbeat),
            "NotifyClientTermination": ("StatusResponse", routes.terminate),
            "SendMessage": ("SendMessageResponse", self._sends.send),
            "RecallMessage": ("RecallMessageResponse", self._sends.recall),
            "ReceiveMessage": ("ReceiveMessageResponse", self._receives.receive),
            "EndTransaction": ("StatusResponse", transactions.end),
            "AckMessage": ("AckMessageResponse", self._receives.acknowledge),
            "ChangeInvisibleDuration": ("ChangeInvisibleDurationResponse", self._receives.change_time),
            "ForwardMessageToDeadLetterQueue": ("StatusResponse", self._receives.forward),
        }
        self._methods: dict[str, Method] = {
            SERVICE + name: Unary(f"{name}Request", response, handle, spawn)
            for name, (response, handle) in unary.items()
        }
        self._for_strangers: dict[str, Method] = {
            SERVICE + name: Unary(f"{name}Request", response, _refuse_stranger, spawn)
            for name, (response, _) in unary.items()
        }
        self._methods[SERVICE + "Telemetry"] = self._telemetry
        refuse = Unary("StatusResponse", "StatusResponse", _refuse, spawn)
        self._methods |= {SERVICE + name: refuse for name in OTHERS}

    def find(self, path: str) -> Method | None:
        """The method of a path; what says so to a client that has to log in. A stream ends with the status of gRPC."""
        methods = self._methods if self._may_enter() else self._for_strangers
        return methods.get(path)

    def pass_ended(self) -> None:
        """Hand what was sent to the log."""
        self._sends.flush()

    def hurry(self) -> None:
        """Answer now what waits, and end the streams that last."""
        self._receives.hurry()
        for call in list(self._connection.calls.values()):
            if call.method is self._telemetry:
                call.finish(GrpcStatus.UNAVAILABLE, "the broker is going")

    def closed(self) -> None:
        """The connection is gone."""
        self._receives.closed()
