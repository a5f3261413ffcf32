"""Headless Chromium for tests that look at a report; without a `chromium` on the PATH they are skipped.

With CHROMIUM_REQUIRED they fail instead.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfgate.report.html import ALLURE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    not CHROMIUM and not os.environ.get("CHROMIUM_REQUIRED"), reason="no chromium on the PATH"
)
STEP_MS = 10_000
"""So long a click may wait for what it clicks."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Give the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    """Give an empty page; whatever it loads must ask for nothing elsewhere, and log no error."""
    context = browser.new_context()
    opened, wrong = context.new_page(), list[str]()
    opened.set_default_timeout(STEP_MS)
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda sent: wrong.append(sent.url) if sent.url.startswith("http") else None)
    yield opened
    context.close()
    assert wrong == []


def open_test(page: "Page", report: Path, family: str, title: str) -> None:
    """Open Allure's page of the report, then the test whose title begins so."""
    page.goto(report.with_name(ALLURE).as_uri())
    group, test = page.get_by_text(family, exact=True).first, page.get_by_text(title).first
    group.wait_for()
    if not test.is_visible():  # a family in which something failed stands open
        group.click()
    test.click()


def see_picture(page: "Page", name: str) -> None:
    """Open a picture that is attached to the test; fails where it is none."""
    page.get_by_text(name).first.click()
    picture = page.locator("img[src^='blob:'], img[src^='data:']").first
    picture.wait_for()
    page.wait_for_function("picture => picture.naturalWidth > 0", arg=picture.element_handle())
