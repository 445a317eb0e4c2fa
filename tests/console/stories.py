"""What people come for, each from its beginning to its end, in a real browser over a real broker."""

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import opened
from tests.console.scene import HOSTILE, MARKUP, ORDERS, TRACED, WORK, Scene

TABS = 20


def dialogue(page: Page, title: str) -> object:
    return page.get_by_role("dialog").filter(has=page.get_by_role("heading", name=title))


def test_the_stuck_consumer(scene: Scene, browser: Browser) -> None:
    """Overview, the group, the record at which it stands."""
    with opened(browser, scene.url) as page:
        page.get_by_role("region", name="Consumers").get_by_role("link", name="billing").click()
        expect(page.get_by_role("heading", name="billing")).to_be_visible()
        expect(page.get_by_text("Where it stands")).to_be_visible()
        page.get_by_role("link", name=re.compile(rf"{ORDERS}.\d at")).click()
        expect(page.locator(".open-record .json")).to_be_visible()


def test_why_did_they_die(scene: Scene, browser: Browser) -> None:
    """Open one, edit it, send one back, then the others."""
    scene.api("POST", "queues", {"name": "broken.dead"})
    scene.api("POST", "queues", {"name": "broken", "dead_letter_queue": "broken.dead"})
    scene.publish("broken", *({"value": {"job": number}} for number in range(5)))
    taken = scene.api("POST", "queues/broken/receive", {"max": 5})["messages"]
    scene.api(
        "POST",
        "queues/broken/settle",
        {"reject": [{"receipt": one["receipt"], "reason": "no country"} for one in taken]},
    )
    with opened(browser, f"{scene.url}#/dead?queue=broken.dead") as page:
        expect(page.get_by_role("region", name="Reasons")).to_contain_text("no country")
        page.get_by_role("button", name="0:0").click()
        expect(page.locator(".open-record")).to_contain_text("rejected in broken")
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("dialog").get_by_label("Value").fill('{"job": 0, "country": "DE"}')
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.get_by_role("button", name="0:5")).to_be_visible()
        for limit, left in (("1", 4), ("", 0)):
            page.get_by_role("button", name="Send back", exact=True).first.click()
            page.get_by_role("dialog").get_by_label("How many, at most").fill(limit)
            page.get_by_role("dialog").get_by_role("button", name="Preview").click()
            expect(page.get_by_role("dialog")).to_contain_text(f"{limit or 4} would go, 0 would stay")
            page.get_by_role("dialog").get_by_role("button", name="Send back").click()
            expect(page.get_by_role("region", name="Messages of broken.dead").locator("tbody tr")).to_have_count(left)
    values = [one["value"] for one in scene.api("GET", "queues/broken/messages")["messages"]]
    assert '{"job":0,"country":"DE"}' in values
    assert len(values) == 5


def test_replay_a_queue(scene: Scene, browser: Browser) -> None:
    """What was acknowledged waits again, after a preview and the name."""
    with opened(browser, f"{scene.url}#/queue/{WORK}") as page:
        page.get_by_role("button", name="Rewind").click()
        form = page.get_by_role("dialog")
        expect(form.get_by_role("img", name="Messages over time")).to_be_visible()
        form.get_by_role("button", name="Preview").click()
        expect(form).to_contain_text(re.compile(r"\d+ messages wait again"))
        expect(form.get_by_role("button", name="Rewind")).to_be_disabled()
        form.get_by_label(f"Type {WORK} to confirm").fill(WORK)
        form.get_by_role("button", name="Rewind").click()
        expect(page.get_by_text(re.compile(rf"\d+ messages of {WORK} wait now"))).to_be_visible()
    assert scene.api("GET", f"queues/{WORK}")["ready"] >= 50


def test_find_and_cancel_a_scheduled_message(scene: Scene, browser: Browser) -> None:
    """By a header; cancelled; and back within ten seconds."""
    before = scene.api("GET", "schedules")["pending"]
    with opened(browser, f"{scene.url}#/schedule") as page:
        page.get_by_label("Header").fill("customer=42")
        page.get_by_role("button", name="Search").click()
        rows = page.get_by_role("region", name="Schedule", exact=True).locator("tbody tr")
        expect(rows).to_have_count(1)
        rows.get_by_role("button", name="Cancel").click()
        expect(rows).to_have_count(0)
        assert scene.api("GET", "schedules")["pending"] == before - 1
        page.get_by_role("button", name="Undo").click()
        expect(rows).to_have_count(1)
    assert scene.api("GET", "schedules")["pending"] == before


def test_browse_json_and_export_it(scene: Scene, browser: Browser, tmp_path: Path) -> None:
    """From a time, filtered, opened, exported as lines that can be published again."""
    with opened(browser, f"{scene.url}#/topic/{ORDERS}") as page:
        page.get_by_label("From").fill("today 00:00")
        page.get_by_label("Where").fill("amount > 100 AND source = 'shop'")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text(re.compile(r"Scanned .* shown"))).to_be_visible()
        expect(page.locator("tbody tr").nth(5)).to_be_visible()
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("dialog").get_by_role("button", name="Export").click()
        kept = tmp_path / "orders.jsonl"
        download.value.save_as(kept)
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(records) > 50
    assert all(one["value"]["amount"] > 100 for one in records)


def test_who_is_connected(scene: Scene, browser: Browser) -> None:
    with scene.channel(), opened(browser, f"{scene.url}#/connections") as page:
        table = page.get_by_role("region", name="Connections")
        expect(table).to_contain_text("confluent-kafka-python")
        expect(table).to_contain_text("mailer")
        page.get_by_role("button", name=re.compile(r"amqp \d")).click()
        expect(table.locator("tbody tr")).to_have_count(1)
        expect(table).to_contain_text("Pika Python")


def test_trace_one_message(scene: Scene, browser: Browser) -> None:
    """From the palette: a traceparent goes to its trace."""
    with opened(browser, scene.url) as page:
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type(TRACED)
        page.get_by_role("option", name=TRACED).click()
        expect(page.locator(".line-of-time")).to_contain_text("rejected in work")


def test_follow_keeps_up(scene: Scene, browser: Browser) -> None:
    with opened(browser, f"{scene.url}#/topic/{ORDERS}") as page:
        page.get_by_role("button", name="Follow").click()
        expect(page.get_by_text(re.compile(r"Following: [1-9]\d* records came"))).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("Following")).to_have_count(0)


def test_all_by_keyboard(scene: Scene, browser: Browser) -> None:
    """To a topic, into a record and out of a dialogue without a mouse."""
    with opened(browser, f"{scene.url}#/topic/{ORDERS}?partition=0&offset=0") as page:
        opener = page.locator("tbody .opener").first
        opener.focus()
        page.keyboard.press("Enter")
        expect(opener).to_have_attribute("aria-expanded", "true")
        page.get_by_role("button", name="Publish").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        expect(page.get_by_role("dialog").get_by_label("Key")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Publish")).to_be_focused()


def test_whatever_is_in_names_and_values(scene: Scene, browser: Browser) -> None:
    """Markup, control characters, right-to-left, a megabyte."""
    scene.api("POST", "topics", {"name": "hostile"})
    large = {"text": "x" * 900_000}
    scene.publish("hostile", {"key": HOSTILE, "value": {MARKUP: [MARKUP, HOSTILE]}, "headers": {MARKUP: MARKUP}}, large)
    scene.api("POST", "queues", {"name": f"q{MARKUP}{HOSTILE}"})
    with opened(browser, f"{scene.url}#/topic/hostile?open=0:1") as page:
        expect(page.get_by_role("button", name="… show all of it")).to_be_visible()
        page.goto(f"{scene.url}#/topic/hostile?open=0:0")
        expect(page.locator(".open-record")).to_contain_text(MARKUP)
        expect(page.locator(".open-record")).to_contain_text("\\u202e")
        page.goto(f"{scene.url}#/queues")
        expect(page.get_by_role("region", name="Queues")).to_contain_text(MARKUP)
        assert page.locator("main img").count() == 0


def test_twenty_tabs(scene: Scene, browser: Browser) -> None:
    context = browser.new_context()
    try:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages:
            page.goto(scene.url)
        for page in pages:
            expect(page.locator(".plot svg")).to_be_visible()
    finally:
        context.close()


def test_the_page_is_soon_there(scene: Scene, browser: Browser) -> None:
    """With warm files; on a machine that does nothing else it is far below this."""
    with opened(browser, scene.url) as page:
        expect(page.locator(".plot svg")).to_be_visible()
        page.reload()
        expect(page.locator(".plot svg")).to_be_visible()
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
    assert paint < 3_000
