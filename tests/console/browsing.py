"""Chromium over a real broker: what each test of the console needs, and what each page must keep to."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "Chromium is not installed (Debian: apt install chromium)"
PATIENCE_MS = 10_000
EXPECTED_OFFLINE = "net::ERR_"
"""What the browser itself notes when the broker is away."""


class Observed:
    """A page, and what happened in it that must not."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self._check(request.url, origin))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and EXPECTED_OFFLINE not in text:
            self.faults.append(text)

    def _check(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "blob:", "data:")):
            self.faults.append(f"asked {url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, width: int = 1440, height: int = 900, scheme: str = "light") -> Iterator[Page]:
    """A page of its own; at the end nothing must have gone wrong in it."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
    )
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page = context.new_page()
    observed = Observed(page, url.partition("#")[0])
    try:
        page.goto(url)
        yield page
        assert observed.faults == []
    finally:
        context.close()


def screenshot(page: Page, folder: Path, name: str) -> Path:
    path = folder / f"{name}.png"
    page.screenshot(path=path)
    return path
