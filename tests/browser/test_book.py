"""Every page of the built book, opened from the file system with no network."""

import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import nbformat
import notebooks
import page_checks
import pytest
from bs4 import BeautifulSoup, SoupStrainer
from playwright.sync_api import BrowserContext

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
PAGES = [f"{page}.html" for page in notebooks.pages(ROOT / "_toc.yml")]


@pytest.fixture(scope="module", params=PAGES)
def visit(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[page_checks.Visit]:
    path = HTML / request.param
    assert path.is_file(), "build the book first: make book"
    visit = page_checks.Visit(context, path)
    page_checks.show_pictures(visit.page)
    yield visit
    visit.page.close()


def test_no_request_leaves_and_nothing_fails(visit: page_checks.Visit) -> None:
    assert visit.leaving() == []
    assert visit.errors == []


def test_a_page_weighs_no_more_than_1_5_megabytes_to_its_end(visit: page_checks.Visit) -> None:
    assert visit.weight() <= 1_500_000


@pytest.mark.parametrize("check", page_checks.PAGE_CHECKS, ids=lambda check: check.__name__)
def test_page(visit: page_checks.Visit, check: page_checks.PageCheck) -> None:
    assert check(visit.page) == []


@pytest.mark.parametrize("name", ["index.html", "search.html", "genindex.html", *PAGES])
def test_links(name: str) -> None:
    assert page_checks.broken_links(HTML / name) == []


def test_a_work_that_the_reference_names_is_in_the_bibliography() -> None:
    page = BeautifulSoup((HTML / "book" / "bibliography.html").read_text("utf-8"), "html.parser")
    works = [work.get_text() for work in page.select(".citation p")]
    pages = [path.read_text("utf-8") for path in (HTML / "book" / "api").glob("*.html")]
    named = set(re.findall(r"([A-Z]\w+),? \(?((?:19|20)\d\d)[,)]", "\n".join(pages)))
    assert len(named) > 3
    for author, year in named:
        assert any(re.search(rf"\b{author}\b.*\b{year}\b", work) for work in works), author


FOCUSED = """() => {
  const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement);
  const e = document.activeElement;
  return { name: e.ariaLabel || e.textContent.trim() || e.title, within: !!e.closest("article"),
           ring: outlineStyle !== "none" || boxShadow !== "none", html: e.outerHTML.slice(0, 80) };
}"""


def test_the_sidebar_and_the_header_can_be_used_by_keyboard(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "api" / "policies.html")
    stops = 0
    while True:
        visit.page.keyboard.press("Tab")
        focused = visit.page.evaluate(FOCUSED)
        if focused["within"]:
            break
        assert focused["name"], focused["html"]
        assert focused["ring"], focused["html"]
        stops += 1
    assert stops > 30, "the sidebar and the buttons of the header"
    toggle = visit.page.locator(".primary-toggle")
    toggle.focus()
    toggle.press("Enter")
    visit.page.locator("#pst-primary-sidebar").wait_for(state="hidden")
    has_focus = "() => document.activeElement?.matches('.primary-toggle')"
    visit.page.wait_for_function(has_focus)
    visit.page.close()


def test_code_without_a_scroll_bar_is_no_tab_stop_although_the_theme_makes_it_one(
    context: BrowserContext,
) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "your_own_arms.html")
    visit.page.set_viewport_size(page_checks.PHONE)
    visit.page.locator("article pre.scrolls").first.wait_for()
    still = visit.page.locator("article pre:not(.scrolls)")
    assert still.count() > 10
    still.evaluate_all("elements => { for (const e of elements) e.tabIndex = 0; }")
    assert page_checks.needless_tab_stops(visit.page) == []
    scrolls = visit.page.locator("article pre.scrolls").first
    scrolls.evaluate("e => { e.tabIndex = -1; }")
    assert scrolls.evaluate("e => e.tabIndex") == 0
    visit.page.close()


def test_pictures_have_a_light_background_in_forced_colours(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "which_policy.html")
    visit.page.emulate_media(forced_colors="active", color_scheme="dark")
    page_checks.dress(visit.page, "dark")
    looks = visit.page.locator("article img").evaluate_all(
        "images => images.map(getComputedStyle).map(look => [look.filter, look.backgroundColor])"
    )
    assert looks
    assert all(look == ["none", "rgb(255, 255, 255)"] for look in looks)
    visit.page.close()


def test_first_page_leads_to_the_book(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto((HTML / "index.html").as_uri())
    page.wait_for_url(f"**/{PAGES[0]}")
    page.close()


@pytest.mark.parametrize(
    ("query", "first", "words"),
    [
        ("budget", "book/phases.html", "budget"),
        ("theorem 4.2", "book/upper_bound.html#thm-upper-bound", "sufficiently large T"),
        ("erratum 8", "book/errata.html#erratum-8", "constant 64"),
        ("dpbai.simulate", "book/api/success.html#dpbai.simulate", ""),
        ("hardness", "book/upper_bound.html", "hard"),
    ],
)
def test_search_finds_first(context: BrowserContext, query: str, first: str, words: str) -> None:
    visit = page_checks.Visit(context, HTML / "search.html", f"?q={query.replace(' ', '+')}")
    result = visit.page.locator("#search-results li").first
    result.wait_for()
    assert result.locator("a").first.get_attribute("href").startswith(first)
    if words:
        result.locator("p.context").wait_for()
        assert words.lower() in result.inner_text().lower()
    visit.page.locator(".search-summary", has_text="Search finished").wait_for()
    visit.page.locator("#search-results p.context").first.wait_for()
    excerpts = visit.page.locator("#search-results p.context").all_inner_texts()
    assert excerpts
    assert re.findall(r".{9}(?:\\[a-z(]|\$\w|import ).{9}", " ".join(excerpts)) == [], "source"
    assert visit.leaving() == []
    assert visit.errors == []
    visit.page.close()


def test_a_link_to_a_theorem_shows_it(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "lower_bound.html")
    card = visit.page.locator("#card")
    link = visit.page.locator("article p a:not(.headerlink)[href*='upper_bound.html#thm-']").first
    page_checks.show_pictures(visit.page)  # nothing moves any more
    link.hover()
    card.locator("mjx-container").first.wait_for()
    assert card.inner_text().startswith(link.inner_text())
    card.hover()
    visit.page.wait_for_timeout(500)  # twice as long as a card stays without a pointer
    assert card.is_visible(), "a pointer may rest on the card"
    visit.page.keyboard.press("Escape")
    assert not card.is_visible()
    visit.page.mouse.move(5, 5)
    visit.page.keyboard.press("Tab")
    link.focus()
    card.wait_for()
    assert link.get_attribute("aria-describedby") == "card"
    link.blur()
    assert not card.is_visible()
    assert visit.errors == []
    visit.page.close()


def test_a_first_tap_shows_the_card_and_a_second_one_follows(context: BrowserContext) -> None:
    fingers = context.browser.new_context(viewport=page_checks.PHONE, has_touch=True, offline=True)
    visit = page_checks.Visit(fingers, HTML / "book" / "lower_bound.html")
    link = visit.page.locator("article p a[href*='errata.html#erratum-9']").first
    link.tap()
    visit.page.locator("#card").wait_for()
    assert visit.page.url.endswith("lower_bound.html")
    link.tap()
    visit.page.wait_for_url("**/errata.html#erratum-9")
    fingers.close()


def test_statements_have_the_papers_number_and_the_books() -> None:
    statements = SoupStrainer("div", class_=re.compile(r"\bproof\b"))
    pages = [
        BeautifulSoup((HTML / page).read_text(), "html.parser", parse_only=statements)
        for page in PAGES
    ]
    boxes = [
        title.get_text(" ", strip=True)
        for page in pages
        for title in page.select("div.proof[id]:not([id^=proof]) > .admonition-title")
    ]
    own = [re.search(r"\bB\.(\d+)", box)[1] for box in boxes]
    assert list(map(int, own)) == list(range(1, len(boxes) + 1)), "one count through the book"
    assert any(box.startswith("Theorem 4.2 (Upper bound) B.") for box in boxes)
    assert not any(re.search(r"\((.*: )?(Theorem|Lemma|Definition) [A-Z\d]", box) for box in boxes)
    assert all(box.endswith("#") for box in boxes), "a link to itself"


def test_the_button_saves_the_notebook(context: BrowserContext) -> None:
    visit = page_checks.Visit(context, HTML / "book" / "phases.html")
    address = visit.page.locator("a.btn-download-source-button[href*='.ipynb']").get_attribute(
        "href"
    )
    with ZipFile(HTML / "book" / address) as file:
        assert file.namelist() == ["phases.ipynb"]
        assert nbformat.reads(file.read("phases.ipynb").decode(), as_version=4).cells
    visit.page.close()
