"""paho-mqtt against the real program: every quality of service, sessions, retained messages, wills, shared subscriptions."""

from collections.abc import Callable

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.clients.mqtt.devices import Device, Devices, properties

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("v5", [False, True])
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_messages_come_in_order_at_every_quality(devices: Devices, name: str, v5: bool, transport: str) -> None:
    listener = devices.device(v5=v5, transport=transport)
    assert listener.subscribe(f"{name}/#", 2) == [2]
    sender = devices.device(v5=v5, transport=transport)
    for qos in (0, 1, 2):
        for number in range(200):
            sender.client.publish(f"{name}/x", b"%d" % number, qos)
        heard = listener.hear(200)
        assert [int(message.payload) for message in heard] == list(range(200))
        assert {message.qos for message in heard} == {qos}


@pytest.mark.parametrize("v5", [False, True])
def test_a_session_outlives_its_connection(devices: Devices, name: str, v5: bool) -> None:
    kept: Callable[[], Device]
    if v5:

        def kept() -> Device:
            device = devices.device(name, v5=True, connect=False)
            wish = properties(PacketTypes.CONNECT, SessionExpiryInterval=600)
            return device.connect(clean_start=False, properties=wish)
    else:

        def kept() -> Device:
            return devices.device(name, clean_session=False)

    first = kept()
    first.subscribe(f"{name}/+", 2)
    first.leave()
    sender = devices.device()
    for number in range(300):
        sender.publish(f"{name}/x", b"%d" % number, 1 + number // 150)
    again = kept()
    assert again.flags.session_present
    assert [int(message.payload) for message in again.hear(300)] == list(range(300))
    again.unsubscribe(f"{name}/+")
    sender.publish(f"{name}/x", b"unheard", 1)
    again.subscribe(f"{name}/y", 1)
    sender.publish(f"{name}/y", b"heard", 1)
    assert again.hear()[0].payload == b"heard"


def test_retained_messages_wait_for_subscribers(devices: Devices, name: str) -> None:
    sender = devices.device()
    for place in ("a", "b"):
        sender.publish(f"{name}/{place}", place.encode(), 1, retain=True)
    sender.publish(f"{name}/b", b"", 1, retain=True)
    listener = devices.device(v5=True)
    listener.subscribe(f"{name}/+", options=SubscribeOptions(qos=1, retainAsPublished=True))
    first = listener.hear()[0]
    assert (first.topic, first.payload, first.retain) == (f"{name}/a", b"a", True)
    sender.publish(f"{name}/a", b"again", 1, retain=True)
    assert listener.hear()[0].retain
    plain = devices.device()
    plain.subscribe(f"{name}/a", 1)
    assert plain.hear()[0].payload == b"again"
    sender.publish(f"{name}/a", b"now", 1, retain=True)
    live = plain.hear()[0]
    assert (live.payload, live.retain) == (b"now", False)


def test_a_will_is_published_for_who_vanishes_alone(devices: Devices, name: str) -> None:
    listener = devices.device()
    listener.subscribe(f"{name}/#", 1)
    leaving, vanishing = devices.device(connect=False), devices.device(connect=False)
    leaving.client.will_set(f"{name}/left", b"", 1)
    vanishing.client.will_set(f"{name}/vanished", b"gone", 1)
    leaving.connect()
    vanishing.connect()
    leaving.leave()
    vanishing.vanish()
    heard = listener.hear()[0]
    assert (heard.topic, heard.payload) == (f"{name}/vanished", b"gone")


def test_another_connection_takes_the_session_over(devices: Devices, name: str) -> None:
    first = devices.device(name, v5=True, reconnect_on_failure=False)
    devices.device(name, v5=True, reconnect_on_failure=False)
    assert first.reasons.get(timeout=10).value == 0x8E


def test_members_share_a_subscription(devices: Devices, name: str) -> None:
    members = [devices.device(v5=True) for _ in range(3)]
    for member in members:
        assert member.subscribe(f"$share/group/{name}/+", 1) == [1]
    sender = devices.device()
    for number in range(90):
        sender.publish(f"{name}/x", b"%d" % number, 1)
    heard: list[int] = []
    while len(heard) < 90:
        for member in members:
            while not member.heard.empty():
                heard.append(int(member.heard.get().payload))
    assert sorted(heard) == list(range(90))


def test_properties_of_version_5_come_through(devices: Devices, name: str) -> None:
    listener = devices.device(v5=True)
    overlapping = properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=7)
    listener.subscribe(f"{name}/#", options=SubscribeOptions(qos=1), properties=overlapping)
    second = properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=9)
    listener.subscribe(f"{name}/+", options=SubscribeOptions(qos=2), properties=second)
    said = properties(
        ContentType="text/plain",
        ResponseTopic=f"{name}/answers",
        CorrelationData=b"\x00\xff",
        PayloadFormatIndicator=1,
        MessageExpiryInterval=100,
        UserProperty=[("a", "1"), ("mqtt.topic", "mine"), ("a", "2")],
    )
    sender = devices.device(v5=True)
    sender.publish(f"{name}/x", "grüße".encode(), 2, properties=said)
    heard = listener.hear()[0].properties
    assert heard is not None
    assert (heard.ContentType, heard.ResponseTopic) == ("text/plain", f"{name}/answers")
    assert (heard.CorrelationData, heard.PayloadFormatIndicator) == (b"\x00\xff", 1)
    assert 95 <= heard.MessageExpiryInterval <= 100
    assert heard.UserProperty == [("a", "1"), ("mqtt.topic", "mine"), ("a", "2")]
    assert sorted(heard.SubscriptionIdentifier) == [7, 9]
    assert listener.heard.empty(), "one delivery for overlapping subscriptions"


def test_no_local_and_refused_filters(devices: Devices, name: str) -> None:
    device = devices.device(v5=True)
    assert device.subscribe([(f"{name}/#", SubscribeOptions(qos=1, noLocal=True))]) == [1]
    assert device.subscribe([("$share//b", SubscribeOptions(qos=1)), (f"{name}", SubscribeOptions(qos=0))]) == [0x8F, 0]
    device.publish(f"{name}/x", b"mine", 1)
    devices.device().publish(f"{name}/x", b"another's", 1)
    assert device.hear()[0].payload == b"another's"
