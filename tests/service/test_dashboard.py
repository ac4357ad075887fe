"""The operator's page in a real browser, as a person would use it: log in, watch a message arrive, revoke a client."""

import shutil

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

pytestmark = pytest.mark.extras

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def test_the_page_brings_nothing_from_elsewhere(running):
    service = running()
    answer = service.client(None, service.operator_address).get("/")
    assert answer.status_code == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
    for path in ("/", "/page.css", "/page.js"):
        text = service.client(None, service.operator_address).get(path).text
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as made:
        started = made.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_an_operator_logs_in_watches_and_revokes(running, browser, width):
    from exhume.service import Remote
    from tests.service.test_remote import BARE, rows

    service = running(BARE, names=("a", "b"))
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(service.operator_address)
    page.fill("#token", "wrong")
    page.click("#login button")
    page.wait_for_selector("#wrong:has-text('not an operator')")
    page.fill("#token", service.operator_token)
    page.click("#login button")
    page.wait_for_selector("#main:not([hidden])")
    serial = int(page.locator("#tiles dd").first.inner_text())
    assert serial == service.store.published.serial

    Remote(service.address, service.tokens["a"]).client("a").add(*rows(5))
    page.wait_for_selector("#log td:has-text('accepted')")
    page.wait_for_function(f"document.querySelector('#tiles dd').textContent === '{serial + 1}'")

    page.locator("#clients tr", has=page.get_by_role("cell", name="b", exact=True)).get_by_role(
        "button", name="Revoke"
    ).click()
    page.wait_for_selector("#clients td:has-text('revoked')")
    assert service.service.tokens.holder(service.tokens["b"], "client") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not errors
    assert np.isfinite(service.store.head().weights).all()
