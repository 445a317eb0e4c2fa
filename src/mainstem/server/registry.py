"""The protocols this broker speaks. A new one is its folder and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from mainstem.protocols.amqp import adapter as amqp
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.protocols.http import adapter as http
from mainstem.protocols.http.session import HttpSettings
from mainstem.protocols.kafka import adapter as kafka
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.protocols.management import adapter as management
from mainstem.protocols.management.session import ManagementSettings
from mainstem.protocols.mqtt import adapter as mqtt
from mainstem.protocols.mqtt.session.settings import MqttSettings, MqttWebSocketSettings
from mainstem.protocols.pulsar import adapter as pulsar
from mainstem.protocols.pulsar.session.settings import AdminSettings, PulsarSettings
from mainstem.protocols.registry import adapter as schema_registry
from mainstem.protocols.registry.session import RegistrySettings
from mainstem.protocols.rocketmq import adapter as rocketmq
from mainstem.protocols.rocketmq.session.settings import GrpcSettings, NamesSettings, RemotingSettings
from mainstem.protocols.stomp import adapter as stomp
from mainstem.protocols.stomp.session.settings import StompSettings, WebSettings

if TYPE_CHECKING:
    from mainstem.broker.broker import Broker
    from mainstem.server.operations import ServerOperations
    from mainstem.transport.session import OpenSession


class Services(msgspec.Struct, frozen=True):
    """What adapters are given of the broker."""

    operations: ServerOperations
    broker: Broker


Connect: TypeAlias = "Callable[[Services, Any], OpenSession]"
"""Makes the adapter, with its own settings; answers what opens a session for each connection."""


class Registration(msgspec.Struct, frozen=True):
    """One protocol: its name, in settings and commands, and all that is particular to it."""

    name: str
    default_ports: tuple[int, ...]
    settings: type[msgspec.Struct]
    """Its section of the settings; every field has a default."""
    connect: Connect
    check: Callable[[Any, list[str]], None] | None = None
    """Whether it can and may be served on these hosts with its settings. Raises ValueError."""
    introduce: Callable[[Broker, Any], object] | None = None
    """Says to the broker what holds whether the protocol listens or not, by its settings: how its messages are addressed and
    worded, and the rules of what other protocols share."""
    takes_both: bool = False
    """Whether its clients expect TLS and clear text on one port: the first byte of TLS begins no request of it."""
    application_protocols: tuple[str, ...] = ()
    """What its clients ask for in the handshake of TLS (ALPN)."""


def _connect_amqp(services: Services, settings: msgspec.Struct) -> OpenSession:
    return amqp.AmqpAdapter(cast(AmqpSettings, settings), services.broker, services.operations).open_session


def _introduce_amqp(broker: Broker, settings: AmqpSettings) -> None:
    amqp.introduce(broker)


def _connect_http(services: Services, settings: msgspec.Struct) -> OpenSession:
    mounted = schema_registry.RegistryAdapter(RegistrySettings(), services.broker, services.operations, is_mounted=True)
    mounts = {schema_registry.MOUNT: mounted.answer}
    adapter = http.HttpAdapter(cast(HttpSettings, settings), services.broker, services.operations, mounts=mounts)
    return adapter.open_session


def _connect_schema_registry(services: Services, settings: msgspec.Struct) -> OpenSession:
    adapter = schema_registry.RegistryAdapter(cast(RegistrySettings, settings), services.broker, services.operations)
    return adapter.open_session


def _connect_kafka(services: Services, settings: msgspec.Struct) -> OpenSession:
    return kafka.KafkaAdapter(cast(KafkaSettings, settings), services.broker, services.operations).open_session


def _connect_management(services: Services, settings: msgspec.Struct) -> OpenSession:
    adapter = management.ManagementAdapter(cast(ManagementSettings, settings), services.broker, services.operations)
    return adapter.open_session


def _connect_pulsar(services: Services, settings: msgspec.Struct) -> OpenSession:
    return pulsar.PulsarBroker(cast(PulsarSettings, settings), services.broker, services.operations).open_session


def _connect_mqtt(services: Services, settings: msgspec.Struct) -> OpenSession:
    return mqtt.MqttAdapter(cast(MqttSettings, settings), services.broker, services.operations).open_session


def _connect_mqtt_websocket(services: Services, settings: msgspec.Struct) -> OpenSession:
    adapter = mqtt.MqttWebSocketAdapter(cast(MqttWebSocketSettings, settings), services.broker, services.operations)
    return adapter.open_session


def _connect_pulsar_admin(services: Services, settings: msgspec.Struct) -> OpenSession:
    return pulsar.PulsarAdmin(cast(AdminSettings, settings), services.broker, services.operations).open_session


def _connect_rocketmq_broker(services: Services, settings: msgspec.Struct) -> OpenSession:
    return rocketmq.RemotingBroker(cast(RemotingSettings, settings), services.broker, services.operations).open_session


def _connect_rocketmq(services: Services, settings: msgspec.Struct) -> OpenSession:
    return rocketmq.GrpcBroker(cast(GrpcSettings, settings), services.broker, services.operations).open_session


def _connect_rocketmq_names(services: Services, settings: msgspec.Struct) -> OpenSession:
    return rocketmq.NameServer(cast(NamesSettings, settings), services.broker, services.operations).open_session


def _connect_stomp(services: Services, settings: msgspec.Struct) -> OpenSession:
    return stomp.StompAdapter(cast(StompSettings, settings), services.broker, services.operations).open_session


def _connect_stomp_websocket(services: Services, settings: msgspec.Struct) -> OpenSession:
    return stomp.WebAdapter(cast(WebSettings, settings), services.broker, services.operations).open_session


REGISTERED: dict[str, Registration] = {
    registration.name: registration
    for registration in (
        Registration(
            kafka.NAME, (kafka.DEFAULT_PORT,), KafkaSettings, _connect_kafka, kafka.check_listening, kafka.govern
        ),
        Registration(
            amqp.NAME, (amqp.DEFAULT_PORT,), AmqpSettings, _connect_amqp, amqp.check_listening, _introduce_amqp
        ),
        Registration(
            http.NAME,
            (http.DEFAULT_PORT,),
            HttpSettings,
            _connect_http,
            http.check_listening,
            application_protocols=("http/1.1",),
        ),
        Registration(
            management.NAME,
            (management.DEFAULT_PORT,),
            ManagementSettings,
            _connect_management,
            application_protocols=("http/1.1",),
        ),
        Registration(pulsar.NAME, (pulsar.PORT,), PulsarSettings, _connect_pulsar, introduce=pulsar.introduce),
        Registration(mqtt.NAME, (mqtt.DEFAULT_PORT,), MqttSettings, _connect_mqtt, mqtt.check_listening),
        Registration(
            mqtt.WEBSOCKET_NAME,
            (mqtt.WEBSOCKET_PORT,),
            MqttWebSocketSettings,
            _connect_mqtt_websocket,
            mqtt.check_websocket,
            application_protocols=("http/1.1",),
        ),
        Registration(
            pulsar.ADMIN_NAME,
            (pulsar.ADMIN_PORT,),
            AdminSettings,
            _connect_pulsar_admin,
            application_protocols=("http/1.1",),
        ),
        Registration(
            rocketmq.NAME,
            (rocketmq.GRPC_PORT,),
            GrpcSettings,
            _connect_rocketmq,
            rocketmq.check_grpc,
            takes_both=True,
            application_protocols=("h2",),
        ),
        Registration(
            rocketmq.BROKER_NAME,
            (rocketmq.BROKER_PORT,),
            RemotingSettings,
            _connect_rocketmq_broker,
            rocketmq.check_broker,
            rocketmq.introduce,
            takes_both=True,
        ),
        Registration(
            rocketmq.NAMES_NAME,
            (rocketmq.NAMES_PORT,),
            NamesSettings,
            _connect_rocketmq_names,
            rocketmq.check_names,
            takes_both=True,
        ),
        # off until it is asked for: the listener of HTTP has the same paths
        Registration(
            schema_registry.NAME, (), RegistrySettings, _connect_schema_registry, schema_registry.check_listening
        ),
        Registration(stomp.NAME, (stomp.PORT,), StompSettings, _connect_stomp, stomp.check_listening, stomp.introduce),
        Registration(stomp.WEB_NAME, (stomp.WEB_PORT,), WebSettings, _connect_stomp_websocket),
    )
}
