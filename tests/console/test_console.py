"""The console in a real browser, in short; `make test-console` has the rest."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import opened
from tests.console.scene import MARKUP, ORDERS, TRACED, Scene

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_the_overview_says_how_things_are(scene: Scene, browser: Browser) -> None:
    with opened(browser, scene.url) as page:
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        expect(page.locator(".plot svg path.line").first).to_be_attached()
        box = page.locator(".plot svg").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 100
        expect(page.get_by_role("region", name="Consumers").get_by_role("link", name="billing")).to_be_visible()


def test_records_are_filtered_opened_and_published(scene: Scene, browser: Browser) -> None:
    with opened(browser, f"{scene.url}#/topics") as page:
        page.get_by_role("link", name=ORDERS, exact=True).click()
        page.get_by_label("Where").fill("id = 40007 AND source = 'shop'")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody .opener").click()
        expect(page.locator(".json")).to_contain_text('"country": "JP"')
        expect(page.locator("dd", has_text="00-4bf92f3577b34da6")).to_be_visible()
        page.get_by_role("button", name="Publish").click()
        dialogue = page.get_by_role("dialog")
        dialogue.get_by_label("Key").fill("by hand")
        dialogue.get_by_label("Value", exact=True).fill('{"big": 12345678901234567890}')
        dialogue.get_by_role("button", name="Publish").click()
        expect(page.get_by_text(re.compile(r"Published: partition \d, offset"))).to_be_visible()
    (found,) = scene.api("GET", f"topics/{ORDERS}/records?key=by+hand")["records"]
    assert found["value"] == {"big": 12345678901234567890}


def test_hostile_content_is_text(scene: Scene, browser: Browser) -> None:
    scene.publish("audit", {"key": MARKUP, "text": MARKUP + "\u0007\u202e"}, {"value": {MARKUP: MARKUP}})
    with opened(browser, f"{scene.url}#/topic/audit?open=0:0") as page:
        expect(page.locator("pre.content")).to_contain_text(f"{MARKUP}\u2407\\u202e")
        assert page.locator("main img").count() == 0


def test_the_palette_goes_to_anything(scene: Scene, browser: Browser) -> None:
    with opened(browser, scene.url) as page:
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("payments")
        expect(page.get_by_role("option", name="payments.settled")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="payments.settled")).to_be_visible()


def test_a_broker_that_goes_away_comes_back_without_a_reload(tmp_path: Path, browser: Browser) -> None:
    broker = Scene(tmp_path / "data")
    try:
        with opened(browser, broker.url) as page:
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            page.evaluate("window.isTheSame = true")
            expect(page.get_by_text("live", exact=True)).to_be_visible()
            broker.kill()
            expect(page.get_by_role("alert")).to_contain_text("Values are as of")
            assert "stale" in (page.locator("html").get_attribute("class") or "")
            broker.start()
            expect(page.get_by_role("alert")).to_be_hidden()
            assert page.evaluate("window.isTheSame") is True
        broker.stop()
    finally:
        if broker.program.process.poll() is None:
            broker.kill()


def test_one_message_is_traced_through_its_lives(scene: Scene, browser: Browser) -> None:
    with opened(browser, f"{scene.url}#/trace") as page:
        page.get_by_label("Message").fill(TRACED)
        page.get_by_role("button", name="Trace").click()
        stations = page.locator(".line-of-time li")
        expect(stations.filter(has_text="as amqp to exchange events with key order.created")).to_have_count(1)
        expect(stations.filter(has_text="attempt 1: KeyError: 'country'")).to_have_count(1)
        expect(stations.filter(has_text="rejected in work")).to_be_visible()
        expect(
            stations.filter(has_text=re.compile("published as (record|kafka)")).filter(has_text=ORDERS)
        ).to_be_visible()
