"""The checks find nothing in a sound page, and each finds the fault that it is there for.

Printed for the PDF, the same page has an outline of its headings, and typeset formulas.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import page_checks
import pdf
import pytest
import sample_book
from playwright.sync_api import BrowserContext


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_book.build(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def visit(context: BrowserContext, html: Path) -> Iterator[page_checks.Visit]:
    visit = page_checks.Visit(context, html)
    yield visit
    visit.page.close()


def test_sample_is_sound(visit: page_checks.Visit, html: Path) -> None:
    assert visit.leaving() == []
    assert visit.errors == []
    for check in page_checks.PAGE_CHECKS:
        assert check(visit.page) == []
    assert page_checks.broken_links(html) == []


def test_sample_has_what_is_checked(visit: page_checks.Visit) -> None:
    for selector, count in [
        ("mjx-container", 5),
        ("img[alt='A line that rises from 0 to 1.']", 1),
        (".explorer input[type=range]", 1),
        (".explorer label mjx-container", 1),
        (".explorer select", 1),
        ("figcaption .caption-number", 1),
        ("details.numbers", 2),  # what cells print beside a figure and an explorer
    ]:
        assert visit.page.locator(f"article {selector}").count() >= count, selector


def test_unlinked_control_is_found(context: BrowserContext, html: Path) -> None:
    text = html.read_text(encoding="utf-8")
    unlinked = html.with_name("unlinked.html")
    unlinked.write_text(text.replace("oninput=", "data-none="), encoding="utf-8")
    visit = page_checks.Visit(context, unlinked)
    assert len(page_checks.dead_controls(visit.page)) == 2
    visit.page.close()


DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
WIDE = (
    "data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 "
    "width=%22900%22 height=%229%22/%3E"
)
BROKEN = [
    (page_checks.untypeset_formulas, "<h1>A</h1><span class='math'>x</span>"),
    (
        page_checks.untypeset_formulas,
        "<h1>A</h1><span class='math'><mjx-container><mjx-merror>x</mjx-merror>"
        "</mjx-container></span>",
    ),
    (page_checks.raw_tex, "<h1>A</h1><p>Slavkovi{\\'c}</p>"),
    (page_checks.overflow, "<h1>A</h1><div style='width: 900px'>x</div>"),
    (
        page_checks.secret_scrolling,
        "<h1>A</h1><pre style='overflow: auto'>" + 9 * "one very long line " + "</pre>",
    ),
    (
        page_checks.illegible_pictures,
        f"<h1>A</h1><figure><img alt='A.' width='90' src='{WIDE}'></figure>",
    ),
    (
        page_checks.illegible_pictures,  # large enough, but a tap does not enlarge it
        f"<h1>A</h1><figure><img alt='A.' width='500' src='{WIDE}'></figure>",
    ),
    (
        page_checks.small_handles,
        "<h1>A</h1><div class='explorer'><input type='range' style='height: 9px'></div>",
    ),
    (page_checks.heading_order, "<h1>A</h1><h3>B</h3>"),
    (page_checks.heading_order, "<h1>A</h1><h1>B</h1>"),
    (page_checks.heading_order, "<h2>A</h2>"),
    (page_checks.undescribed_images, "<h1>A</h1><img src='a.png' alt=''>"),
    (
        page_checks.cut_off,
        "<h1>A</h1><pre style='width: 90px; overflow: auto'>one very long line of code</pre>",
    ),
    (
        page_checks.misnamed_folds,
        "<h1>A</h1><details><summary aria-label='Open'>The code</summary></details>",
    ),
    (
        page_checks.dead_controls,
        "<div class='explorer'><input type='range'><svg width='9' height='9'></svg></div>",
    ),
    (page_checks.dead_controls, "<div class='explorer'><input type='range'></div>"),
    (page_checks.pale_print, "<h1>A</h1><style>[data-theme=dark] p {color: #ddd}</style><p>x</p>"),
    (page_checks.pale_print, "<h1>A</h1><button>Run this page</button>"),
    (
        page_checks.pale_print,
        "<h1>A</h1><details class='sd-dropdown'><summary>Slips</summary>x</details>",
    ),
    (page_checks.needless_tab_stops, "<h1>A</h1><span tabindex='0'>x</span>"),
    (page_checks.blurred_images, f"<h1>A</h1><img alt='A dot.' width='60' src='{DOT}'>"),
    (page_checks.axe_violations, "<h1>A</h1><p style='color: #eee'>pale</p>"),
    (
        page_checks.axe_violations,
        "<h1>A</h1><style>[data-theme=dark] p {color: #eee}</style><p>pale in the dark</p>",
    ),
    (page_checks.axe_violations, "<p>dark</p><p style='color: #eee'>pale</p>"),
    (
        page_checks.axe_violations,
        "<p>on white</p><div style='background: #222'><p>on black</p></div>",
    ),
    (page_checks.axe_violations, "<h1>A</h1><a href='b.html'></a>"),
]


@pytest.mark.parametrize(("check", "body"), BROKEN)
def test_check_finds_the_fault(
    context: BrowserContext, check: page_checks.PageCheck, body: str
) -> None:
    page = context.new_page()
    page.set_content(f"<html lang='en'><title>A</title><article>{body}</article></html>")
    assert check(page)
    page.close()


def test_each_check_is_shown_to_fail() -> None:
    assert {check for check, _ in BROKEN} == set(page_checks.PAGE_CHECKS)


@pytest.mark.parametrize(
    "body",
    [
        "<link rel='stylesheet' href='https://example.org/a.css'>",
        "<script src='https://example.org/a.js'></script>",
        "<img src='https://example.org/a.png'>",
        "<script>fetch('https://example.org/')</script>",
    ],
)
def test_request_that_would_leave_is_found(
    context: BrowserContext, tmp_path: Path, body: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(body)
    visit = page_checks.Visit(context, path)
    assert len(visit.leaving()) == 1
    visit.page.close()


@pytest.mark.parametrize(
    "body",
    [
        "<script>throw new Error('x')</script>",
        "<script>console.error('x')</script>",
        "<script src='missing.js'></script>",
    ],
)
def test_error_is_found(context: BrowserContext, tmp_path: Path, body: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(body)
    visit = page_checks.Visit(context, path)
    assert visit.errors
    visit.page.close()


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text("<p id='here'></p>")
    path = tmp_path / "a.html"
    path.write_text(
        "<a href='b.html#here'></a><a href='b.html#gone'></a><a href='c.html'></a>"
        "<a href='#gone'></a><a href='https://example.org/'></a>"
    )
    assert page_checks.broken_links(path) == [
        "link to a missing place: b.html#gone",
        "broken link: c.html",
        "link to a missing place: #gone",
    ]


def print_apart(page: Path, target: Path) -> None:
    """Print in a thread of its own: in this one, other checks may have a browser open."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pdf.print_page, page, target).result()


@pytest.fixture(scope="module")
def printed(html: Path) -> bytes:
    whole = html.with_name("whole.html")
    whole.write_text(pdf.join([html, html.with_name("bibliography.html")]), encoding="utf-8")
    target = whole.with_suffix(".pdf")
    print_apart(whole, target)
    return target.read_bytes()


def test_outline_is_that_of_the_headings(printed: bytes) -> None:
    titles = re.findall(rb"/Title \((.*?)\)", printed)
    for heading in (
        b"A sample chapter",
        b"A figure",
        b"An explorer",
        b"Exercises",
        b"Bibliography",
    ):
        assert titles.count(heading) == 1


def test_every_page_of_the_book_begins_on_a_page_of_its_own(printed: bytes) -> None:
    contents, chapters = 1, 2
    assert len(re.findall(rb"/Type /Page\b(?!s)", printed)) >= contents + chapters


def test_links_within_the_book_stay_in_the_file(printed: bytes) -> None:
    assert re.search(rb"/Dest|/GoTo", printed)
    assert b"file:/" not in printed


def test_formula_that_is_not_typeset_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<article class="bd-article"><span class="math">x</span></article>')
    with pytest.raises(RuntimeError, match="formula not typeset"):
        print_apart(page, tmp_path / "page.pdf")
