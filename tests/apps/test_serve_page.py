"""The page in a real browser: each path pressed through as a person does it, in both schemes and on a narrow screen."""

from __future__ import annotations

import shutil
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp_client import MARTA, TOKEN
from test_serve import TOKENS, served_memory

from apps.configuration import Place
from apps.mcp.server import Address, http_server, listening
from apps.serve.app import make_app
from scripts.browser import Browser

pytestmark = pytest.mark.proof

TEXT = "document.querySelector('main').innerText"
WAIT = """new Promise((done, fail) => {{
  const until = Date.now() + 20000;
  const look = () => {{
    if ({condition}) return done(true);
    if (Date.now() > until) return fail(new Error("It did not come: " + document.body.innerText.slice(0, 500)));
    setTimeout(look, 30);
  }};
  look();
}})"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return served_memory(tmp_path_factory.mktemp("served") / "memory")


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a server on a copy of the memory."""
    uri = shutil.copytree(template, tmp_path / "memory")
    address = Address("127.0.0.1", 0)
    with listening(address, "") as listener:
        port = listener.getsockname()[1]
        app = make_app(Place.of(str(uri)), Address("127.0.0.1", port), TOKENS)
        server = http_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def browser(running: Browser, home: str) -> Iterator[Browser]:
    """A browser that has logged in by the link; afterwards it has no complaint, and asked nobody else for anything."""
    running.resize(1280, 800)
    running.open(f"{home}/?token={TOKEN}")
    assert running.ask("location.search") == ""
    running.complaints.clear()
    running.requests.clear()
    yield running
    assert running.complaints == []
    assert {url.split("/")[2] for url in running.requests if url.startswith("http")} <= {home.removeprefix("http://")}


def wait(browser: Browser, condition: str) -> None:
    browser.ask(WAIT.format(condition=condition))


def shoot(browser: Browser, folder: Path, name: str) -> None:
    """A picture of the page as it is, which is not empty and no wider than the window."""
    picture = b64decode(browser.picture())
    (folder / f"{name}.png").write_bytes(picture)
    assert len(picture) > 3_000
    width = browser.ask("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], f"{name} is wider than the window"


def test_whoever_has_no_token_logs_in_with_the_form(running: Browser, home: str) -> None:
    running.open(f"{home}/people?type=all")
    wait(running, "document.activeElement.id === 'token'")  # the cookie of another server is none here
    for key in TOKEN:
        running.press(key)
    running.follow("document.querySelector('main form').requestSubmit()")
    assert running.ask("location.pathname + location.search") == "/"
    running.open(f"{home}/people?type=all")
    assert "Redis Streams" in running.ask(TEXT)
    assert running.ask("document.cookie") == ""


def test_a_question_is_asked_with_the_keyboard_and_leads_to_the_story_of_a_source(
    browser: Browser, tmp_path: Path
) -> None:
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    browser.ask("document.getElementById('q').focus()")
    for key in "violin":
        browser.press(key)
    browser.press("Enter")
    wait(browser, "document.getElementById('source-1')")
    assert browser.ask("document.getElementById('answer').getAttribute('aria-live')") == "polite"
    assert browser.ask("document.activeElement.id") == "q", "the keyboard stays where it was"
    assert browser.ask("location.search").startswith("?q=violin")
    assert MARTA[2] in browser.ask(TEXT)
    shoot(browser, tmp_path, "ask")
    browser.follow("document.querySelector('#source-1 a[href^=\"/why/\"]').click()")
    assert "Who said it" in browser.ask(TEXT)


def test_the_slider_moves_a_person_through_time_and_now_brings_the_present_back(
    browser: Browser, home: str, tmp_path: Path
) -> None:
    browser.open(f"{home}/people")
    browser.follow("[...document.querySelectorAll('main a')].find(a => a.textContent === 'Marta').click()")
    assert browser.ask("document.querySelector('.slider').hidden") is False
    now = browser.ask("document.querySelectorAll('#known > .facts > li').length")
    browser.ask("document.getElementById('slider').focus()")
    browser.press("Home")
    wait(browser, "document.querySelector('#known h2').textContent.includes('1 January 2026')")
    assert browser.ask("document.getElementById('slider').getAttribute('aria-valuetext')") == "2026-01-01"
    assert browser.ask("location.search") == "?as_of=2026-01-01"
    assert browser.ask("document.querySelectorAll('#known > .facts > li').length") < now
    shoot(browser, tmp_path, "person")
    browser.press("End")
    wait(browser, "document.querySelector('#known h2').textContent.includes('now')")
    assert browser.ask("document.getElementById('as_of').value") == ""
    browser.ask("document.getElementById('as_of').value = '2026-01-02'")
    browser.ask("document.querySelector('form.time button').click()")
    wait(browser, "document.querySelector('#known h2').textContent.includes('2 January 2026')")
    browser.ask("document.querySelector('[data-now]').click()")
    wait(browser, "document.querySelector('#known h2').textContent.includes('now')")
    assert "<script>window.broken = 1</script>" in browser.ask(TEXT)
    assert browser.ask("window.broken === undefined && document.querySelectorAll('main img').length === 0")


CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')].filter((each) => each.checkVisibility() &&
      [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())).map((each) => {
    const [a, b] = [light(rgb(getComputedStyle(each).color)), light(ground(each))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), each.tagName + '.' + each.className + ' ' + each.textContent.trim().slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
})()"""
CONTROLS = "input:not([type=hidden]), select, button, a, summary, iframe"
UNNAMED = f"""[...document.querySelectorAll('{CONTROLS}')].filter((each) =>
  !(each.labels?.length || each.textContent.trim() || each.title || each.ariaLabel)).map((each) => each.outerHTML)"""


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_the_screen_can_be_read_and_names_its_controls(
    browser: Browser, home: str, tmp_path: Path, is_dark: bool, width: int
) -> None:
    browser.resize(width, 800)
    run = "[...document.querySelectorAll('.runs a')][0].href"
    browser.open(f"{home}/runs")
    paths = ["/", "/?q=violin", "/people", "/people/e_marta", "/runs", "/review", "/costs", "/atlas", "/nothing"]
    found: Callable[[str], str] = browser.ask
    paths += [found(run).removeprefix(home), f"{found(run).removeprefix(home)}/undo"]
    browser.open(f"{home}/review")
    paths.append(found("document.querySelector('.card a').pathname"))
    for path in paths:
        browser.open(f"{home}{path}", is_dark=is_dark)
        browser.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        shoot(browser, tmp_path, path.strip("/").replace("/", "-").replace("?", "-")[:30] or "home")
        assert browser.ask(CONTRAST) == [], path
        assert browser.ask(UNNAMED) == [], path
        landmarks = "[...document.querySelectorAll('header, nav, main, h1')].map(each => each.tagName)"
        assert browser.ask(landmarks) == ["HEADER", "NAV", "MAIN", "H1"], path
        assert browser.ask("document.documentElement.lang") == "en"
        ids = browser.ask("[...document.querySelectorAll('[id]')].map(each => each.id)")
        assert len(ids) == len({*ids}), path
    browser.complaints[:] = [each for each in browser.complaints if "404" not in each]  # of the page that is not there
