"""The atlas in a browser: it opens without a complaint, and does what a person asks of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from test_atlas import FACTS, HOSTILE, NOW, filled, seconds

from apps.configuration import Place
from apps.mcp.server import Address, http_server, listening
from apps.serve.app import ATLAS, drawn
from apps.serve.site import FOLDER, Site
from inference.embedding import STATIC_DIMS
from recall.atlas import atlas_data
from scripts.browser import Browser
from slowwave.common.settings import DEFAULT_EMBEDDER, Settings
from storage.store import Store

EMBEDDING = (DEFAULT_EMBEDDER, STATIC_DIMS)
EDGES = (
    "atlas.shownEdges().map(([a, b, facts]) => [[a, b].map(name => name.slice(0, 9)).sort().join(' '), facts]).sort()"
)
FOLDERS = {"/static/atlas": ATLAS, "/static": FOLDER / "static"}
PANEL = "document.getElementById('panel').textContent"


@contextmanager
def serving(store: Store) -> Iterator[str]:
    """The address of the map of a store, as it was at NOW."""
    site = Site(Place(store.uri, store.namespace, Settings()))

    def show(request: Request) -> Response:
        return drawn(site, request, atlas_data(store, NOW))

    static = [Mount(path, StaticFiles(directory=folder)) for path, folder in FOLDERS.items()]
    with listening(Address("127.0.0.1", 0), "") as listener:
        server = http_server(Starlette(routes=[Route("/", show), *static]))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(filled(Store.create(str(tmp_path_factory.mktemp("page") / "store"), "default", EMBEDDING))) as address:
        yield address


@pytest.fixture(scope="module")
def opened(running: Browser, page: str) -> Browser:
    """The browser with the page in it."""
    running.open(page)
    return running


@pytest.fixture
def browser(opened: Browser) -> Iterator[Browser]:
    """The page as it is at first: the present, nothing chosen, an empty search box. Afterwards it has no complaint."""
    opened.ask("atlas.setTime(null), atlas.showGroups(), atlas.search(''), document.activeElement.blur()")
    yield opened
    assert opened.complaints == []


def test_the_page_opens_without_a_complaint_or_a_request_and_draws_every_entity(browser: Browser, page: str) -> None:
    assert browser.ask("atlas.renderer.getGraph().order") == 5
    assert browser.ask("document.querySelectorAll('#map canvas').length > 3")
    assert browser.ask(EDGES) == [["</script> Ben", 2], ["</script> Carl", 1], ["Ben Dora", 1]]
    assert browser.ask("document.getElementById('tally').textContent") == "5 facts about 4 entities"
    assert browser.complaints == []
    assert all(request.startswith(page) for request in browser.requests)


def test_stored_text_that_wants_to_be_a_script_is_shown_as_it_is(browser: Browser) -> None:
    browser.ask("atlas.select(atlas.data.entities.id.indexOf('e_anna'))")
    assert browser.ask("document.querySelector('#panel h2').textContent") == HOSTILE
    assert browser.ask("document.querySelector('#masthead h1').textContent") == "default"
    browser.ask("atlas.search('script')")
    assert HOSTILE in browser.ask("document.getElementById('suggestions').textContent")
    assert browser.ask("window.broken === undefined")
    assert browser.ask("document.querySelectorAll('img').length") == 0
    assert browser.ask(
        "new Promise(done => { addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));"
        " const forged = document.createElement('script'); forged.textContent = 'window.broken = 1';"
        " document.body.append(forged); })"
    ).startswith("script-src"), "what is not of the page would not run even if it got in"
    assert browser.ask("window.broken === undefined")
    (complaint,) = browser.complaints
    assert "Content Security Policy" in complaint
    browser.complaints.clear()


def test_search_finds_names_aliases_and_statements_from_the_keyboard(browser: Browser) -> None:
    browser.press("/")
    assert browser.ask("document.activeElement.id") == "search"
    for key in "ANNI":
        browser.press(key)
    assert browser.ask("document.getElementById('suggestions').hidden") is False
    browser.press("Enter")
    assert browser.ask("atlas.data.entities.id[atlas.state.entity]") == "e_anna", "by another of its names"
    found = browser.ask("atlas.search('joined')")
    assert found == ["ben joined dora"]
    assert browser.ask("atlas.search('nobody')") == ["Nothing of that name"]
    browser.ask("document.getElementById('search').focus()")
    browser.press("Escape")
    assert browser.ask("document.getElementById('suggestions').hidden") is True


def test_a_fact_tells_its_story_and_leads_to_what_replaced_it(browser: Browser) -> None:
    browser.ask("atlas.openFact(atlas.data.facts.id.indexOf('f_left'))")
    told = browser.ask(PANEL)
    assert "3 Jan 2026" in told
    assert "10 Feb 2026" in told
    assert "conflict: later" in told
    assert "slowwave why left" in told
    browser.ask("[...document.querySelectorAll('#panel dd a')].at(-1).click()")
    assert browser.ask("atlas.data.facts.id[atlas.state.fact]") == "f_joined"
    assert "Took over“ben left carl”" in browser.ask(PANEL)
    browser.ask("atlas.openFact(atlas.data.facts.id.indexOf('f_met'))")
    met = browser.ask(PANEL)
    assert "Said 5 times" in met
    assert "quote 0Anna · 1 Jan 2026 · may.md" in met
    browser.ask("document.querySelector('.back').click()")
    assert browser.ask("atlas.data.facts.id[atlas.state.fact]") == "f_joined"
    browser.press("Escape")
    assert browser.ask("[atlas.state.entity, atlas.state.fact]") == [-1, -1]


def test_the_slider_shows_what_held_then_and_now_brings_the_present_back(browser: Browser) -> None:
    browser.ask("Object.assign(document.getElementById('slider'), { value: 0 }).dispatchEvent(new Event('input'))")
    assert browser.ask("atlas.toldFacts()") == ["f_lived"]
    assert browser.ask(EDGES) == []
    browser.ask(f"atlas.setTime({seconds(15)})")
    assert browser.ask(EDGES) == [["</script> Ben", 2], ["</script> Carl", 1], ["Ben Carl", 1]]
    assert "16 Jan 2026" in browser.ask("document.getElementById('tally').textContent")
    browser.ask("document.getElementById('now').click()")
    assert browser.ask("atlas.state.time") is None
    live = sorted(row["id"] for row in FACTS if row["status"] == "active")
    assert sorted(browser.ask("atlas.toldFacts()")) == live
    browser.ask("document.getElementById('play').click()")
    assert browser.ask(
        "new Promise(done => { const look = () => atlas.state.time === null ? requestAnimationFrame(look) : done(true);"
        " look(); })"
    )
    browser.press("Escape")
    assert browser.ask("document.getElementById('play').getAttribute('aria-label')") == "Play"


@pytest.mark.proof
def test_an_empty_memory_says_how_to_begin(running: Browser, tmp_path: Path) -> None:
    with serving(Store.create(str(tmp_path / "store"), "default", EMBEDDING)) as address:
        running.open(address, is_dark=True)
        assert "slowwave ingest" in running.ask("document.body.innerText")
        assert running.ask("document.getElementById('stage').offsetParent === null")
        assert running.complaints == []
