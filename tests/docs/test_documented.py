"""Documents that say everything: a setting, command, option or requirement without its line fails here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from mainstem.cli.app import app
from mainstem.coordination.catalog.broker_config import STORED as BROKER_STORED
from mainstem.coordination.catalog.topic_config import STORED as TOPIC_STORED
from mainstem.coordination.groups.group_config import STORED as GROUP_STORED
from mainstem.server.registry import REGISTERED
from mainstem.server.settings import Key, known_keys

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
KAFKA = (ROOT / "docs" / "protocols" / "kafka.md").read_text(encoding="utf-8")
REQUIREMENTS_COUNT = 250


def documented(name: str) -> str:
    """The name of its row: listeners for TLS, which every protocol has, share one."""
    return re.sub(r"^(listen|advertise)\.[a-z-]+\+tls$", r"\1.PROTOCOL+tls", name)


@pytest.mark.parametrize("key", list(known_keys().values()), ids=lambda key: key.name)
def test_every_setting_is_documented_with_its_default(key: Key) -> None:
    rows = [row for row in CONFIGURATION.splitlines() if row.startswith(f"| `{documented(key.name)}` |")]
    assert len(rows) == 1, f"docs/configuration.md has no row for {key.name}"
    assert f"`{written_default(key)}`" in rows[0].replace(",", "").replace("_", ""), rows[0]


def written_default(key: Key) -> str:
    if key.name.startswith("listen.") and key.default:
        return " ".join(map(str, key.default))
    if isinstance(key.default, tuple) and key.default and isinstance(key.default[0], str):
        return " ".join(key.default)
    if key.default is None or key.default == ():
        return "none"
    return str(key.default).replace("_", "")


def test_no_setting_is_documented_that_is_none() -> None:
    rows = re.findall(r"^\| `([a-z][a-zPROTCL_.+-]+)` \|", CONFIGURATION, flags=re.MULTILINE)
    assert sorted(rows) == sorted({documented(name) for name in known_keys()})


@pytest.mark.parametrize("name", sorted({*TOPIC_STORED, *GROUP_STORED, *BROKER_STORED}))
def test_what_is_stored_without_effect_is_documented(name: str) -> None:
    assert f"`{name}`" in KAFKA


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command with its options."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
        if isinstance(command, TyperGroup):
            context: Any = None
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from walk(child, f"{path} {name}")
        else:
            options = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
            yield path, [option for parameter in options for option in parameter.opts]

    yield from walk(typer.main.get_command(app), "mainstem")


@pytest.mark.parametrize(("command", "options"), list(commands()))
def test_every_command_and_option_is_documented(command: str, options: list[str]) -> None:
    pages = CONFIGURATION + COMMANDS
    assert f"`{command}" in pages
    for option in options:
        assert f"`{option}" in pages, f"{command} {option}"


@pytest.mark.parametrize("name", list(REGISTERED))
def test_every_protocol_has_its_page(name: str) -> None:
    # Listeners of one protocol share its page.
    pages = [ROOT / "docs" / "protocols" / f"{page}.md" for page in (name, name.partition("-")[0])]
    assert any(page.exists() for page in pages)


def test_every_requirement_has_one_line_and_a_state() -> None:
    rows = re.findall(
        r"^\| R(\d{3}) \| [^|]+ \| (not yet|partly|otherwise|done)\b[^|]* \|", REQUIREMENTS, flags=re.MULTILINE
    )
    assert [int(number) for number, _ in rows] == list(range(1, REQUIREMENTS_COUNT + 1))


def test_what_is_done_names_a_test() -> None:
    rows = re.findall(r"^\| (R\d{3}) \| [^|]+ \| done\b([^|]*) \|", REQUIREMENTS, flags=re.MULTILINE)
    without = [
        number
        for number, proof in rows
        if not any(named.startswith(("tests/", "test_")) for named in re.findall(r"`([\w./-]+)`", proof))
    ]
    assert without == []


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}"


def test_modules_and_tests_of_requirements_are_there() -> None:
    names = {path.name for top in ("src", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")}
    for named in re.findall(r"`([\w./-]+)`", REQUIREMENTS):
        if "/" in named.strip("/") and not named.startswith("/"):
            assert any((ROOT / top / named).exists() for top in ("", "src/mainstem", "docs")), named
        elif named.endswith(".py"):
            assert named in names, named


def test_commands_of_documents_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)[` \n]", _code_in(document.read_text(encoding="utf-8"))):
            assert target in targets, f"{document.relative_to(ROOT)}: make {target}"


def _code_in(text: str) -> str:
    """What stands in backticks, or in a block of code."""
    return "\n".join(f"{piece} " for piece in re.findall(r"```.*?```|`[^`]+`", text, flags=re.DOTALL))
