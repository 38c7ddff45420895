"""The pages in a real browser: nothing is blocked, nothing overflows, both languages, both schemes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from fakes.agent_snapshot import busy_host
from fakes.clock import ManualClock
from fakes.controller_world import World
from fakes.overview import overview
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tidegate.expose.agent_landing import landing
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.model.overview import Overview
from tidegate.runtime.serve import HttpServer, tcp

CHROMIUM = Path("/usr/bin/chromium")
NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
PHONE = {"width": 390, "height": 800}
# No sandbox as root, no call home, no GPU.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class PagesOfNoon(ControllerPages):
    """The real pages of a busy fleet, whatever the controller knows."""

    def status(self, _: Overview, accept_language: str, language: str | None, *, hold: bool = False) -> str:
        return super().status(overview(NOON), accept_language, language, hold=hold)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A controller in this process, in the middle of its day."""
    world = World(ManualClock(NOON))
    pages = PagesOfNoon(world.clock, lambda: (True, "ready"))
    server = HttpServer(build_app(world.api, pages), tcp("127.0.0.1", 0), "test")
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    """A window that notes whatever its console complains of, and whatever it could not load."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    found.on("console", heard)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("requestfailed", lambda request: complaints.append(request.url))
    yield found
    context.close()


def too_wide(page: Page) -> int:
    """By how many pixels the page has to be scrolled sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_the_status_page_shows_pools_and_money_and_complains_of_nothing(
    page: Page, url: str, complaints: list[str]
) -> None:
    page.goto(f"{url}/?lang=en")
    assert page.locator("#pool-base").is_visible()
    assert page.locator("#pool-burst").get_by_text("may change").is_visible()
    assert page.get_by_text("0.097 USD").first.is_visible()
    assert page.get_by_text("estimated").first.is_visible()
    assert page.locator("details").first.get_attribute("open") is None
    page.locator("summary").first.click()
    assert page.get_by_text("base-1 queue_depth = 34").first.is_visible()
    assert (too_wide(page), complaints) == (0, [])


def test_in_chinese_all_that_is_ours_is_chinese(page: Page, url: str, complaints: list[str]) -> None:
    page.goto(f"{url}/?lang=en")
    page.get_by_role("link", name="中文").click()
    assert page.locator("html").get_attribute("lang") == "zh"
    assert page.locator("h2").all_inner_texts() == [
        "资源池", "告警", "成本", "副本", "主机", "最近执行过的决策", "观察到但未计入", "任务",
    ]  # fmt: skip
    assert "chat 有 46 个在途请求" in page.locator("#pool-base .why").inner_text()
    assert complaints == []


def test_held_still_the_page_does_not_ask_again(page: Page, url: str) -> None:
    page.goto(url)
    assert page.locator("meta[http-equiv=refresh]").count() == 1
    page.get_by_role("link", name="hold still").click()
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    page.get_by_role("link", name="go on").click()
    assert page.locator("meta[http-equiv=refresh]").count() == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_phone_needs_no_sideways_scrolling(page: Page, url: str, language: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(f"{url}/?lang={language}")
    assert too_wide(page) == 0


def test_the_dark_scheme_is_dark(page: Page, url: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(url)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in background.removeprefix("rgb(").rstrip(")").split(",")) < 60


def test_the_agents_page_complains_of_nothing(page: Page, complaints: list[str]) -> None:
    page.set_content(landing(busy_host()))
    assert page.get_by_role("heading", name="Engines 推理引擎").is_visible()
    assert page.locator("table").first.is_visible()
    page.set_viewport_size(PHONE)
    assert (too_wide(page), complaints) == (0, [])
