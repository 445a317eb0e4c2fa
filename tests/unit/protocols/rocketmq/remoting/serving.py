"""A broker in memory with both remoting listeners."""

from collections.abc import Mapping

from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.adapter import BROKER_NAME, NameServer, RemotingBroker
from mainstem.protocols.rocketmq.session.settings import NamesSettings, RemotingSettings
from tests.support.clients.remoting_client import RemotingClient

SUCCESS, SYSTEM_ERROR, NOT_SUPPORTED, ILLEGAL, NO_PERMISSION, NO_TOPIC = 0, 1, 3, 13, 16, 17
NOT_FOUND, RETRY_AT_ONCE, MOVED = 19, 20, 21
QUERY_NOT_FOUND, PARSE_FAILED, NOT_SUBSCRIBED = 22, 23, 24


class Operations:
    def advertised(self) -> Mapping[str, list[str]]:
        return {BROKER_NAME: ["127.0.0.1:10911"]}

    def version(self) -> str:
        return "1"


class Served:
    """Opens connections."""

    def __init__(self, broker: Broker, **settings: int) -> None:
        self.broker = broker
        self.remoting = RemotingBroker(RemotingSettings(**settings), broker, Operations())
        self.names = NameServer(NamesSettings(), broker, Operations())

    def client(self) -> RemotingClient:
        return RemotingClient(self.remoting.open_session)

    def name_client(self) -> RemotingClient:
        return RemotingClient(self.names.open_session)
