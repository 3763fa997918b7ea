"""Every page of the built book, opened from the file system with no network."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import nbformat
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
    yield visit
    visit.page.close()


def test_no_request_leaves_and_nothing_fails(visit: page_checks.Visit) -> None:
    assert visit.leaving() == []
    assert visit.errors == []


def test_a_page_loads_no_more_than_1_5_megabytes(visit: page_checks.Visit) -> None:
    files = {unquote(urlsplit(url).path) for url in visit.requests if url.startswith("file:")}
    assert sum(Path(file).stat().st_size for file in files) <= 1_500_000


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


def test_search_finds_the_chapter_and_shows_the_words_offline(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "search.html", "?q=budget")
    visit.page.wait_for_selector("#search-results li p.context")
    visit.page.wait_for_timeout(2000)  # results come one by one
    results = visit.page.locator("#search-results li")
    assert "budget" in results.locator("p.context").first.inner_text().lower()
    pages = [link.get_attribute("href") for link in results.locator("a").all()]
    chapter = pages.index("book/phases.html")
    assert chapter < 5
    assert chapter < next(n for n, page in enumerate(pages) if page.startswith("book/notation"))
    assert visit.leaving() == []
    assert visit.errors == []
    visit.page.close()


def test_the_button_saves_the_notebook(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "phases.html")
    address = visit.page.locator("a.btn-download-source-button[href*='.ipynb']").get_attribute(
        "href"
    )
    with ZipFile(HTML / "book" / address) as file:
        assert file.namelist() == ["phases.ipynb"]
        assert nbformat.reads(file.read("phases.ipynb").decode(), as_version=4).cells
    visit.page.close()
