"""Every page at three widths, light and dark: it has its parts, nothing overflows, and axe finds nothing wrong.

make test-console LOOKS=DIRECTORY      keeps the pictures there; the README's is docs/console.png
"""

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import opened
from tests.console.scene import CLICKS, DEAD, ORDERS, TRACED, WORK, Scene

PAGES = {
    "overview": "overview",
    "topics": "topics",
    "records": f"topic/{ORDERS}?partition=0&offset=3&open=0:3",
    "readers": f"topic/{ORDERS}/consumers",
    "partitions": f"topic/{CLICKS}/partitions",
    "configuration": f"topic/{ORDERS}/configuration",
    "topic-schedule": f"topic/{ORDERS}/schedule",
    "consumers": "consumers",
    "group": "group/billing",
    "queues": "queues",
    "queue": f"queue/{WORK}",
    "exchanges": "exchanges",
    "exchange": "exchange/events",
    "dead": f"dead?queue={DEAD}&open=0:3",
    "schedule": f"schedule?topic={ORDERS}",
    "pipelines": "pipelines",
    "connections": "connections",
    "alarms": "alarms",
    "trace": f"trace?id={TRACED}",
    "settings": "settings",
}
SIZES = {1440: 900, 1024: 768, 390: 844}
PICTURE = Path(__file__).parents[2] / "docs" / "console.png"
PICTURE_BYTES_MAX = 200_000


def settle(page: Page) -> None:
    """Until the page has what it asked for, and was drawn with it."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    expect(page.get_by_text("Looking …")).to_have_count(0)
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("width", list(SIZES))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_and_is_accessible(
    scene: Scene, browser: Browser, width: int, scheme: str, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("LOOKS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    with opened(browser, scene.url, width, SIZES[width], scheme) as page:
        for name, path in PAGES.items():
            page.goto(f"{scene.url}#/{path}")
            settle(page)
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                faults.append(f"{name} is wider than {width}")
            for table in page.locator(".table, .plot").all():
                box = table.bounding_box()
                if box is None or box["width"] < 50 or box["height"] < 20:
                    faults.append(f"{name}: a table or chart without an area")
            faults += [f"{name}: {one['id']} {one['nodes'][0]['target']}" for one in violations(page)]
    assert faults == []


def violations(page: Page) -> list[dict[str, object]]:
    """What axe finds."""
    found: list[dict[str, object]] = Axe().run(page).response["violations"]
    return found


def test_the_picture_of_the_readme(scene: Scene, browser: Browser) -> None:
    with opened(browser, scene.url, 1280, 800, "dark") as page:
        page.wait_for_timeout(60_000)  # a minute of traffic
        settle(page)
        picture = page.screenshot()
    assert len(picture) < PICTURE_BYTES_MAX
    if os.environ.get("LOOKS"):
        PICTURE.write_bytes(picture)
