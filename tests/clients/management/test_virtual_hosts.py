"""Virtual hosts of any name: what is declared in them can go, and come again."""

from pathlib import Path
from urllib.parse import quote

import pika
import pytest

from tests.clients.management.both import Both
from tests.support.serving.program import running

HOSTS = ("team/a", "/", "a//b/", "ü %2F.queue", "default/q")


@pytest.mark.conformance
def test_queues_of_a_virtual_host_with_any_name_can_go_and_come_again(tmp_path: Path) -> None:
    listen = ("--listen", "amqp=127.0.0.1:0", "--listen", "management=127.0.0.1:0", "--listen", "http=off")
    for is_again in (False, True):
        with running(tmp_path / "data", *listen, "--listen", "kafka=off") as program:
            ready = program.wait_ready()
            both = Both(ready["amqp"][0], ready["management"][0])
            for host in HOSTS:
                check_host(both, host, is_again=is_again)


def check_host(both: Both, host: str, *, is_again: bool) -> None:
    step = quote(host, safe="")
    if is_again:
        assert [queue["name"] for queue in both.ask("GET", f"/queues/{step}")] == ["kept"]
    else:
        both.ask("PUT", f"/vhosts/{step}", {})
        both.ask("PUT", f"/permissions/{step}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = both.connect(host=host)
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(2):
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=2))
        assert channel.queue_delete("q").method.message_count == 1
    channel.queue_declare("q", durable=True)
    both.ask("DELETE", f"/queues/{step}/q")
    channel.queue_declare("kept", durable=True)
    connection.close()
