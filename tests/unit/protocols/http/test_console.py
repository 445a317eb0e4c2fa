"""The console's files: for browsers only, whole, small, with a strict policy."""

import gzip
import re
from pathlib import Path

import cramjam
import pytest

from mainstem.protocols import http
from mainstem.protocols.http.codec import Request, Response
from mainstem.protocols.http.errors import UnknownPath
from mainstem.protocols.http.handlers.operation.console import POLICY, Console
from mainstem.protocols.http.handlers.routes import Call
from tests.support.clients.http_client import Client, with_client

PACKED_BYTES_MAX = 60_000
HTML = (b"accept", b"text/html,application/xhtml+xml")
REFERENCE = re.compile(r"""(?:src|href)="([^"#]+)"|(?:from|import)\s*\(?['"`](\.[^'"`$]+)['"`]""")

CONSOLE_FOLDER = Path(http.__file__).parent / "console"
CONSOLE = Console()


def get(path: str, *headers: tuple[bytes, bytes]) -> Response:
    return CONSOLE.get_console_file(Call(request=Request("GET", path, headers=headers)))


@with_client
async def test_a_browser_gets_the_console_and_others_what_they_got(client: Client) -> None:
    assert (await client.get("/"))["name"] == "mainstem"
    page = CONSOLE.page(Request("GET", "/", headers=(HTML,)))
    assert page is not None
    assert b"<!doctype html>" in page.body
    assert CONSOLE.page(Request("GET", "/", headers=((b"accept", b"application/json"),))) is None
    assert CONSOLE.page(Request("GET", "/", headers=((b"accept", b"*/*"),))) is None


def test_all_that_is_referred_to_is_there() -> None:
    for path, found in CONSOLE.files.items():
        text = found.plain.decode()
        folder = "/" if path.endswith("index.html") else path.rpartition("/")[0] + "/"
        for names in REFERENCE.findall(text):
            name = names[0] or names[1]
            if name.startswith("http:") or not re.search(r"\.\w+$", name):
                continue
            steps = (folder + name).split("/")
            while ".." in steps:
                place = steps.index("..")
                del steps[place - 1 : place + 1]
            assert "/".join(step for step in steps if step != ".") in CONSOLE.files, f"{path}: {name}"


def test_every_page_of_the_navigation_is_there() -> None:
    shell = CONSOLE.files["/console/app.js"].plain.decode()
    table = shell[shell.index("const PAGES") : shell.index("const ICONS")]
    modules = re.findall(r"\['\w+', '[^']*', '(\w+)'", table)
    assert len(modules) > 2
    for module in modules:
        assert f"/console/pages/{module}.js" in CONSOLE.files


def test_it_asks_nobody_else_and_runs_no_text() -> None:
    for path, found in CONSOLE.files.items():
        text = found.plain.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        assert not re.search(r"<script(?! type=\"module\" src=)|\sstyle=\"|\son\w+=\"", text), path


def test_comments_are_not_sent_and_lines_keep_their_numbers() -> None:
    source = (CONSOLE_FOLDER / "core" / "table.js").read_bytes()
    sent = CONSOLE.files["/console/core/table.js"].plain
    assert b"/*" not in sent
    assert sent.count(b"\n") == source.count(b"\n")


def test_it_is_small() -> None:
    assert sum(len(found.packed("br")) for found in CONSOLE.files.values()) < PACKED_BYTES_MAX


def test_files_are_packed_tagged_and_under_the_policy() -> None:
    plain = get("/console/app.js")
    packed = get("/console/app.js", (b"accept-encoding", b"gzip, deflate"))
    assert gzip.decompress(packed.body) == plain.body
    smaller = get("/console/app.js", (b"accept-encoding", b"gzip, deflate, br, zstd"))
    assert bytes(cramjam.brotli.decompress(smaller.body)) == plain.body
    assert len(smaller.body) < len(packed.body)
    headers = dict(packed.headers)
    assert headers["content-encoding"] == "gzip"
    assert headers["cache-control"] == "no-cache"
    assert headers["content-security-policy"] == POLICY
    assert packed.content_type.startswith("text/javascript")
    known = get("/console/app.js", (b"if-none-match", headers["etag"].encode()))
    assert (known.status, known.body) == (304, b"")
    assert "'unsafe" not in POLICY
    with pytest.raises(UnknownPath):
        get("/console/../adapter.py")
