"""A page printed for the PDF has an outline of its headings, and typeset formulas."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pdf
import pytest
import sample_book


def print_apart(page: Path, target: Path) -> None:
    """Print in a thread of its own: in this one, other checks may have a browser open."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pdf.print_page, page, target).result()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    html = sample_book.build(tmp_path_factory.mktemp("sample"))
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
