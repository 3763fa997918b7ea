"""Write the built book as one PDF: its pages, joined into one, printed by Chromium.

`make pdf` runs this on what `make book` has built. Formulas and explorers are drawn as on the pages
(an explorer shows its first frame), links within the book lead to pages of the PDF and tell their
numbers, and its outline is that of the headings. What the pages fold is small here or left out: the
code of figures, the commands of the ledger, and the entries of the reference behind its tables of
names. So is the plane, in which points are dragged.
"""

import re
import sys
import unicodedata
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urldefrag

import notebooks
import page_checks
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"
PDF = ROOT / "_build" / "pdf" / "dpbai.pdf"

STYLE = """
@page { size: A4; margin: 18mm 17mm 20mm; }
html { font-size: 10pt; }
body { line-height: 1.5; }
body, .bd-main, .bd-content, .bd-article-container { display: block !important; }
/* A heading whose ink leaves its line reaches into the page before: twice in the outline. */
h1, h2, h3, h4 { line-height: normal !important; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.35rem; }
.bd-article > section > h1 { break-before: page; }
h1, h2, h3, h4, .rubric, .admonition-title, dt, thead { break-after: avoid; }
figure, img, tr, .cell_input, div.math, mjx-container[display="true"], .explorer, .sd-row {
  break-inside: avoid;
}
pre { white-space: pre-wrap; overflow: visible; }
.bd-article pre, .bd-article .admonition .cell pre {
  font-size: 8pt; line-height: 1.35; padding: 0.35rem 0.6rem;
}
.bd-article h2 { margin-top: 1.6rem; }
.bd-article figure img, .bd-article .explorer img { width: 80%; height: auto; }
.explorer :is(input, select, button), .plane, .live-bar, .on-screen,
.sd-container-fluid:has(.sd-btn) {
  display: none !important;
}
.bd-article table { display: table; overflow: visible; }
.bd-article mjx-container { overflow: visible !important; }
.bd-article .cell_output { max-height: none; overflow: visible; }
button.copybtn, .tocsection { display: none !important; }
.solution, .dropdown-printed { font-size: 0.88em; }
.page { color: #555; }
.contents { list-style: none; padding: 0; line-height: 1.3; }
.contents li { display: flex; }
.contents .page { margin-left: auto; }
.contents .of-book { font-weight: 600; margin-top: 0.6rem; }
.front { text-align: center; padding-top: 32vh; break-after: page; }
.front p { font-size: 1.2rem; }
"""
SHELL = """<!DOCTYPE html>
<html lang="en" data-theme="light"><head></head><body><main class="bd-main"><div class="bd-content">
<div class="bd-article-container"><article class="bd-article"><div class="front"></div>
<h2>Contents</h2><ol class="contents"></ol></article>
</div></div></main></body></html>
"""
FOOTER = """
<div style="width: 100%; font: 8px sans-serif; text-align: center">
<span class="pageNumber"></span> / <span class="totalPages"></span></div>
"""
HEADINGS = "h1, h2, h3, h4"
REMOVED = (
    "a.headerlink, p.part, details.hide, .toctree-wrapper, noscript, dl.py, .ledger details, "
    "section:has(> .plane)"
)
MOST_ROUNDS = 5
NO_NUMBER = "000"
"""A placeholder for the number of a page, as wide as a number."""
SCRIPTS = ("MathJax", "mathjax/", "book.js")
GREEK = {
    name: unicodedata.lookup(f"GREEK SMALL LETTER {name}")
    for name in ("alpha", "beta", "gamma", "delta", "epsilon", "theta", "mu", "xi", "omega")
} | {"lambda": "λ"}
POINTERS = ("for", "aria-labelledby", "aria-describedby", "aria-controls")


def join(paths: list[Path]) -> str:
    """Return one page that holds the articles of built pages, in order.

    Identifiers get the page's name in front, so that they stay unique, and links follow them.

    Raises
    ------
    FileNotFoundError
        If a page has not been built.
    """
    joined = BeautifulSoup(SHELL, "html.parser")
    for path in paths:
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        if joined.title is None:
            joined.head.extend([page.find("meta", charset=True), page.title])
            joined.title.string = joined.title.get_text().rpartition("—")[2].strip()
            joined.select_one(".front").extend(front_matter(joined, joined.title.string))
        # Pages of a folder below have the same scripts and styles, by other addresses.
        same_folder = path.parent == paths[0].parent
        for part in page.head.select("script, link[rel=stylesheet]") if same_folder else ():
            needed = part.name == "link" or any(name in str(part) for name in SCRIPTS)
            if needed and part not in joined.head.contents:
                joined.head.append(part)
        article = page.select_one("article.bd-article")
        above = article.select_one("p.part")
        named = above.get_text().partition(">")[0].strip() if above else ""
        if named not in {entry.get_text() for entry in joined.select(".of-book")} | {""}:
            joined.ol.append(joined.new_tag("li", attrs={"class": "of-book"}, string=named))
        solutions_last(article)
        for part in article.select(REMOVED):
            part.decompose()
        for formula in article.select(f":is({HEADINGS}) .math"):
            spell_out(formula)
        for part in article.select("details, .dropdown, .toggle"):
            part["open"] = ""
            part["class"] = [name for name in part["class"] if name not in ("dropdown", "toggle")]
        rename(article, path, {other.resolve(): other.stem for other in paths})
        entry = joined.new_tag("li")
        entry.append(joined.new_tag("a", href=f"#{path.stem}", string=article.h1.get_text()))
        entry.append(joined.new_tag("span", attrs={"class": "page", "data-of": path.stem}))
        joined.ol.append(entry)
        for link in article.select("p a.internal[href^='#'], li a.internal[href^='#']"):
            place = str(link["href"])[1:]
            if not place.startswith(path.stem + "--"):
                page = joined.new_tag("span", attrs={"class": "page", "data-of": place})
                link.insert_after(page)
        article.h1.insert(0, joined.new_tag("a", id=path.stem))
        joined.article.extend(list(article.contents))
    style = joined.new_tag("style")
    style.string = STYLE
    joined.head.append(style)
    return str(joined)


def solutions_last(article: Tag) -> None:
    """Move the solutions of a page behind its last exercise."""
    if exercises := article.select("div.exercise"):
        for solution in reversed(article.select("div.solution")):
            exercises[-1].insert_after(solution.extract())


def spell_out(formula: Tag) -> None:
    r"""Replace a simple formula, like `\(\varepsilon = 1\)`, by text, which an outline can hold."""
    text = formula.get_text().removeprefix(r"\(").removesuffix(r"\)")
    text = re.sub(r"\\(?:var)?([a-z]+)", lambda name: GREEK.get(name[1], name[0]), text)
    if not re.search(r"[\\{}^_]", text):
        formula.replace_with(text)


def rename(article: Tag, path: Path, stems: dict[Path, str]) -> None:
    """Rename identifiers and links for the joined page."""
    for part in article.find_all(True):
        for key in ("id", "name"):
            if key in part.attrs and part.name != "meta":
                part[key] = f"{path.stem}--{part[key]}"
        for key in POINTERS:
            if key in part.attrs:
                part[key] = " ".join(f"{path.stem}--{name}" for name in part[key].split())
        if part.name == "a" and part.get("href"):
            address, fragment = urldefrag(part["href"])
            target = (path.parent / unquote(address)).resolve() if address else path.resolve()
            stem = stems.get(target)
            if stem:
                part["href"] = f"#{stem}--{fragment}" if fragment else f"#{stem}"
            elif not address.startswith(("http:", "https:", "mailto:")):
                del part["href"]  # a page that is not in the book: the index of names


def front_matter(page: BeautifulSoup, title: str) -> list[Tag]:
    """Return the title page: title, subject, authors and version."""
    rows = [
        ("h1", title),
        ("p", "A companion to the paper by Chen, Karthik, Chee and Tan (ICLR 2024), which it runs"),
        ("p", "the dpbai engineers"),
        ("p", f"dpbai {version('dpbai')}"),
    ]
    return [page.new_tag(name, string=text) for name, text in rows]


def number(html: str, pages: Mapping[str, int]) -> str:
    """Return a joined page with the numbers of the pages that its links lead to."""
    joined = BeautifulSoup(html, "html.parser")
    for span in joined.select("span.page[data-of]"):
        page = str(pages.get(span["data-of"], NO_NUMBER))
        if pages and page == NO_NUMBER:
            span.decompose()  # what it leads to is left out: entries of the reference
        else:
            span.string = page if span.find_parent("ol", class_="contents") else f" (p. {page})"
    return str(joined)


def page_numbers(pdf: Path) -> dict[str, int]:
    """Return the number of the page of each place that a link of a PDF leads to, from 1 on."""
    reader = PdfReader(pdf)
    return {
        name.removeprefix("/"): 1 + reader.get_destination_page_number(place)
        for name, place in reader.named_destinations.items()
    }


def print_page(path: Path, pdf: Path) -> None:
    """Print a page of the file system.

    Raises
    ------
    RuntimeError
        If something fails to load, or a formula is not typeset.
    """
    with page_checks.chromium() as browser, page_checks.offline(browser) as context:
        visit = page_checks.Visit(context, path)
        problems = visit.errors + page_checks.untypeset_formulas(visit.page)
        if problems:
            raise RuntimeError("; ".join(problems[:5]))
        visit.page.emulate_media(
            media="screen"
        )  # the theme hides headings of the first level in print
        visit.page.pdf(
            path=pdf,
            prefer_css_page_size=True,
            print_background=True,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
        )


def main() -> int:
    """Write the PDF of the book."""
    paths = [HTML / f"{page}.html" for page in notebooks.pages(ROOT / "_toc.yml")]
    whole = paths[0].with_name("whole-book.html")
    try:
        html, pages = join(paths), dict[str, int]()
        PDF.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(MOST_ROUNDS):  # numbers take room, and may move what they number
            whole.write_text(number(html, pages), encoding="utf-8")
            print_page(whole, PDF)
            before, pages = pages, page_numbers(PDF)
            if before == pages:
                break
        else:
            raise RuntimeError("the numbers of the pages do not settle")
    except FileNotFoundError as error:
        print(f"build the book first: make book ({error})", file=sys.stderr)
        return 1
    finally:
        whole.unlink(missing_ok=True)
    size = PDF.stat().st_size / 1e6
    print(f"Open {PDF.relative_to(ROOT)} ({len(PdfReader(PDF).pages)} pages, {size:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
