"""Every page of the built book, opened from the file system with no network."""

from collections.abc import Iterator
from pathlib import Path

import notebooks
import page_checks
import pytest
from playwright.sync_api import BrowserContext

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
PAGES = [f"{page}.html" for page in notebooks.pages(ROOT / "_toc.yml")]


@pytest.fixture(scope="module", params=PAGES)
def visit(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[page_checks.Visit]:
    path = HTML / request.param
    assert path.is_file(), "build the book first: make book"
    visit = page_checks.Visit(context, path)
    page_checks.widgets_ready(visit.page)
    yield visit
    visit.page.close()


def test_no_request_leaves_and_nothing_fails(visit: page_checks.Visit) -> None:
    assert visit.leaving() == []
    assert visit.errors == []


@pytest.mark.parametrize("check", page_checks.PAGE_CHECKS, ids=lambda check: check.__name__)
def test_page(visit: page_checks.Visit, check: page_checks.PageCheck) -> None:
    assert check(visit.page) == []


def test_explorers_answer_to_the_keyboard(visit: page_checks.Visit) -> None:
    assert page_checks.dead_controls(visit.page) == []


@pytest.mark.parametrize("name", ["index.html", "search.html", "genindex.html", *PAGES])
def test_links(name: str) -> None:
    assert page_checks.broken_links(HTML / name) == []


def test_first_page_leads_to_the_book(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto((HTML / "index.html").as_uri())
    page.wait_for_url(f"**/{PAGES[0]}")
    page.close()


def test_search_works_offline(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "search.html", "?q=privacy")
    visit.page.wait_for_selector("#search-results li")
    assert visit.leaving() == []
    assert visit.errors == []
    visit.page.close()
