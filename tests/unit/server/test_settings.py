"""Settings: precedence, what is refused and how it is named."""

from pathlib import Path

import pytest

from mainstem.server.registry import REGISTERED
from mainstem.server.settings import known_keys
from mainstem.server.settings_resolution import Resolved, SettingsRefused, resolve
from mainstem.server.settings_sources import Flags
from mainstem.transport.address import Address


def resolved(environment: dict[str, str] | None = None, **flags: object) -> Resolved:
    return resolve(Flags(**flags), environment or {})


def refused(environment: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(SettingsRefused) as caught:
        resolved(environment, **flags)
    return "\n".join(caught.value.problems)


def origin(found: Resolved, key: str) -> str:
    return next(setting.origin for setting in found.listed if setting.key == key)


def written(path: Path, text: str) -> str:
    file = path / "mainstem.toml"
    file.write_text(text)
    return str(file)


def test_everything_has_a_default() -> None:
    found = resolved()
    assert {name: addresses for name, addresses in found.settings.listen.items() if addresses} == {
        name: tuple(Address("127.0.0.1", port) for port in known.default_ports)
        for name, known in REGISTERED.items()
        if known.default_ports
    }
    assert {setting.origin for setting in found.listed} == {"default"}
    assert [setting.key for setting in found.listed] == list(known_keys())


def test_flag_before_environment_before_file_before_default(tmp_path: Path) -> None:
    config = written(tmp_path, 'data_dir = "file"\n[limits]\nconnections_max = 1\nidle_timeout_ms = 1\n')
    environment = {"MAINSTEM_DATA_DIR": "environment", "MAINSTEM_LIMITS_CONNECTIONS_MAX": "2"}
    found = resolved(environment, config=config, data_dir="flag")
    assert found.settings.node.data_dir == "flag"
    assert found.settings.limits.connections_max == 2
    assert found.settings.limits.idle_timeout_ms == 1
    assert origin(found, "data_dir") == "flag --data-dir"
    assert origin(found, "limits.connections_max") == "environment MAINSTEM_LIMITS_CONNECTIONS_MAX"
    assert origin(found, "limits.idle_timeout_ms") == f"file {config}"
    assert origin(found, "limits.drain_timeout_ms") == "default"


def test_a_listener_for_tls_is_named_in_every_source(tmp_path: Path) -> None:
    config = written(
        tmp_path, '[listen]\n"kafka+tls" = "[::]:9093"\n[advertise]\n"kafka+tls" = "broker.example:9093"\n'
    )
    found = resolved({"MAINSTEM_LISTEN_AMQP_TLS": "0.0.0.0:5671"}, config=config, listen=["http+tls=127.0.0.1:8443"])
    listen = found.settings.listen
    assert listen["kafka+tls"] == (Address("::", 9093),)
    assert listen["amqp+tls"] == (Address("0.0.0.0", 5671),)
    assert listen["http+tls"] == (Address("127.0.0.1", 8443),)
    assert listen["kafka"], "beside the other"
    assert found.settings.advertise["kafka+tls"] == Address("broker.example", 9093)
    assert "unknown listener 'kafka+tsl'" in refused(listen=["kafka+tsl=127.0.0.1:1"])


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    config = written(tmp_path, 'log_level = "debug"')
    assert resolved({"MAINSTEM_CONFIG": config}).settings.node.log_level == "debug"


def test_every_field_of_the_engine_can_be_set() -> None:
    found = resolved(
        {"MAINSTEM_STORAGE_FLUSH": "os"}, assignments=["storage.run_directories=/a, /b", "storage.adopt_share=0.5"]
    )
    storage = found.settings.storage
    assert (storage.flush, storage.run_directories, storage.adopt_share) == ("os", ("/a", "/b"), 0.5)


def test_large_numbers_are_written_as_in_a_file() -> None:
    found = resolved({"MAINSTEM_STORAGE_CACHE_BYTES_MAX": "1_000_000"}, assignments=["storage.block_bytes=65_536"])
    assert (found.settings.storage.cache_bytes_max, found.settings.storage.block_bytes) == (1_000_000, 65_536)
    assert refused(assignments=["storage.block_bytes=65_536_"])


def test_the_engine_is_given_the_data_directory(tmp_path: Path) -> None:
    assert resolved(data_dir=str(tmp_path)).settings.storage.data_directory == str(tmp_path)
    assert "storage.data_directory" not in known_keys()


def test_a_protocol_has_a_section_of_its_own() -> None:
    assert resolved({"MAINSTEM_HTTP_BODY_BYTES_MAX": "7"}).settings.protocols["http"].body_bytes_max == 7


@pytest.mark.parametrize(
    ("flags", "environment", "file"),
    [
        ({"listen": ["http=h:1", "http=[::1]:2"]}, {}, ""),
        ({}, {"MAINSTEM_LISTEN_HTTP": "h:1, [::1]:2"}, ""),
        ({}, {}, '[listen]\nhttp = ["h:1", "[::1]:2"]'),
    ],
)
def test_one_protocol_may_listen_in_several_places(
    flags: dict[str, list[str]], environment: dict[str, str], file: str, tmp_path: Path
) -> None:
    found = resolved(environment, config=written(tmp_path, file), **flags)
    assert found.settings.listen["http"] == (Address("h", 1), Address("::1", 2))


def test_listen_of_a_higher_source_replaces_the_lower() -> None:
    found = resolved({"MAINSTEM_LISTEN_HTTP": "a:1,b:2"}, listen=["http=c:3"])
    assert found.settings.listen["http"] == (Address("c", 3),)


def test_with_every_listener_off_there_is_no_broker() -> None:
    assert "every listener is off" in refused(listen=[f"{name}=off" for name in REGISTERED])


def test_off_and_an_address_contradict() -> None:
    assert "listen.http" in refused(listen=["http=off", "http=h:1"])


def test_a_wildcard_is_listened_on_but_never_advertised() -> None:
    assert resolved(listen=["http=0.0.0.0:1"], advertise=["http=broker.example:1"]).settings.advertise == {
        "http": Address("broker.example", 1)
    }
    for wildcard in ("0.0.0.0:1", "[::]:1", "host:0"):
        assert "cannot be advertised" in refused(advertise=[f"http={wildcard}"])


@pytest.mark.parametrize(
    ("environment", "flags", "name", "hint"),
    [
        ({}, {"assignments": ["limits.connection_max=1"]}, "limits.connection_max", "limits.connections_max"),
        ({"MAINSTEM_DATADIR": "x"}, {}, "MAINSTEM_DATADIR", "MAINSTEM_DATA_DIR"),
        ({"MAINSTEM_LISTEN_HTPP": "x:1"}, {}, "MAINSTEM_LISTEN_HTPP", "MAINSTEM_LISTEN_HTTP"),
        ({}, {"listen": ["htp=h:1"]}, "'htp'", "http"),
        ({}, {"advertise": ["htp=h:1"]}, "'htp'", "http"),
        ({}, {"assignments": ["zzz=1"]}, "zzz", "config show"),
    ],
)
def test_what_is_unknown_is_refused_with_the_nearest_name(
    environment: dict[str, str], flags: dict[str, list[str]], name: str, hint: str
) -> None:
    problem = refused(environment, **flags)
    assert "unknown" in problem
    assert name in problem
    assert hint in problem


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("data_dirr = 1", "data_dirr", "data_dir"),
        ("[limits]\nidle_timeout = 1", "limits.idle_timeout", "limits.idle_timeout_ms"),
        ("[limit]\nidle_timeout_ms = 1", "limit.idle_timeout_ms", "limits.idle_timeout_ms"),
        ("[listen]\nhtttp = 'h:1'", "'htttp'", "http"),
    ],
)
def test_an_unknown_key_of_a_file_is_refused(text: str, name: str, hint: str, tmp_path: Path) -> None:
    problem = refused(config=written(tmp_path, text))
    assert name in problem
    assert hint in problem


@pytest.mark.parametrize(
    "flags",
    [
        {"assignments": ["limits.connections_max=many"]},
        {"assignments": ["limits.connections_max=0"]},
        {"assignments": ["storage.flush=never"]},
        {"assignments": ["kafka.partitions_default=0"]},
        {"assignments": ["kafka.fetch_bytes_max=-1"]},
        {"assignments": ["http.body_bytes_max=0"]},
        {"assignments": ["management.request_timeout_ms=0"]},
        {"assignments": ["data_dir"]},
        {"assignments": ["data_dir=a", "data_dir=b"]},
        {"listen": ["http"]},
        {"listen": ["http=nowhere"]},
    ],
)
def test_a_value_that_cannot_be_is_refused(flags: dict[str, list[str]]) -> None:
    assert refused(**flags)


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("storage.disk_high_mark=2", "storage.disk_high_mark is a share"),
        ("storage.wal_spare_files=0", "storage.wal_spare_files must be at least 1"),
        ("storage.wal_file_bytes=5_000_000_000", "storage.wal_file_bytes is too large"),
    ],
)
def test_what_the_engine_refuses_is_said_by_its_name(assignment: str, problem: str) -> None:
    assert refused(assignments=[assignment]).startswith(problem)


def test_the_largest_message_fits_into_a_commit() -> None:
    larger = "amqp.message_bytes_max=60_000_000"
    assert "needs a storage.commit_bytes_max of 68388608" in refused(assignments=[larger])
    assert resolved(assignments=[larger, "storage.commit_bytes_max=70_000_000"])
    assert resolved(assignments=[larger], listen=["amqp=off"])


def test_what_could_be_chosen_is_said() -> None:
    assert refused(assignments=["log_level=loud"]).endswith("; one of debug, info, warning, error")


def test_a_file_has_types(tmp_path: Path) -> None:
    assert "limits.connections_max" in refused(config=written(tmp_path, '[limits]\nconnections_max = "5"'))


def test_a_file_that_is_not_there_or_not_toml_is_refused(tmp_path: Path) -> None:
    assert "cannot read" in refused(config=str(tmp_path / "none.toml"))
    assert "is not TOML" in refused(config=written(tmp_path, "]"))


def test_all_problems_are_reported_at_once() -> None:
    problem = refused({"MAINSTEM_X": "1"}, listen=["htp=h:1"])
    assert "MAINSTEM_X" in problem
    assert "htp" in problem


def test_names_are_unambiguous() -> None:
    variables = [key.variable for key in known_keys().values()]
    assert len(set(variables)) == len(variables)
