"""Files that let search, cards and downloads work when the book is opened from the file system.

There a script may not read other pages. So the text of all pages goes into one script, which the
search page loads, and the theorems, formulas, errata and terms that links lead to go into another,
which a page loads when it shows its first card (see `book.js`). A link to a notebook would show its
JSON instead of saving it, so a ZIP file of each notebook is written beside it.
"""

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from bs4 import BeautifulSoup, NavigableString, PageElement, SoupStrainer, Tag
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

TEXTS = "search_texts.js"
CARDS = "card_texts.js"
UNREAD = "script, svg, .headerlink, .cell_input, summary, details.numbers, .toctree-wrapper, .part"
BLOCKS = {"p", "div", "section", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "h4", "pre", "br"}
STATEMENT = "div.proof[id]:not([id^=proof])"
FORMULA = "div.math[id^=equation-]"
NUMBERED = ":is(span, section)[id^=erratum-], :is(span, section)[id^=remark-]"
TERM = "dt[id^=term-]"
UNSAID = re.compile(r"\\(?:begin|end)\{(?:split|aligned|gathered)\}|\\[bB]igg?[lr]?(?![a-z])|\\!|&")
LONGEST = 1200
"""Characters after which a card of more than one paragraph ends."""


@cache
def in_letters(formula: str) -> str:
    r"""Return a formula as text, like ε/(8 β_i) for `\(\frac{\varepsilon}{8 \beta_i}\)`."""
    plain = UNSAID.sub("", formula).replace(r"\\", " ").replace(r"\dots", r"\ldots")
    plain = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", plain)
    try:
        tree = BeautifulSoup(tex2mathml(plain), "html.parser")
    except (MathError, SyntaxError):  # docutils knows fewer commands than MathJax
        return re.sub(r"[\\{}]", " ", plain)

    def said(node: PageElement) -> str:
        if not isinstance(node, Tag):
            return str(node).strip()
        parts = [said(child) for child in node.children if str(child).strip()]
        match node.name, parts:
            case "mfrac", [above, below]:
                return f"{above}/{below}"
            case "msub" | "munder", [base, below]:
                return f"{base}_{below}"
            case "msup", [base, above]:
                return base + (above if above in "*′" else f"^{above}")
            case "mover", [base, _]:
                return base
            case "msubsup" | "munderover", [base, below, above]:
                return f"{base}_{below}^{above}"
        return "".join(parts)

    return said(tree)


def text_of(node: PageElement) -> str:
    """Return the text of a part of a page, as HTML whose only tags are those with identifiers."""
    if not isinstance(node, Tag):
        return escape(str(node)) if type(node) is NavigableString else ""  # not of a comment
    if node.name == "span" and node.get("id") and not node.contents:
        return ""
    if "math" in node.get("class", ()):
        number = node.select_one(".eqno")
        shown = str(node.get_text()).replace(number.get_text() if number else "", "").strip()
        inner = escape(in_letters(re.sub(r"^\\[([]|\\[)\]]$", "", shown)))
    else:
        inner = "".join(text_of(child) for child in node.children)
    if node.name in BLOCKS:
        inner = f" {inner} "
    # A section may have further identifiers, in empty elements before its heading.
    other = node.select(":scope > span[id]:empty") if node.name == "section" else []
    for name in [node.get("id"), *(part["id"] for part in other)]:
        if name:
            inner = f'<div id="{escape(str(name))}">{inner}</div>'
    return inner


def words(article: Tag) -> str:
    """Return the text of a page for the search; what is not text is taken out of the page."""
    for part in article.select(UNREAD):
        part.decompose()
    text = re.sub(r"\s+", " ", text_of(article))
    return f'<div role="main">{text}</div>'


def cards(article: Tag, page: str) -> dict[str, str]:
    """Return the HTML of the possible targets of links on a page, by address."""
    found: dict[str, list[Tag]] = {}
    for box in article.select(f"{STATEMENT}, {FORMULA}"):
        found[str(box["id"])] = [box]
    for term in article.select(TERM):
        meaning = term.find_next_sibling("dd")
        found[str(term["id"])] = [term, meaning] if isinstance(meaning, Tag) else [term]
    for place in article.select(NUMBERED):
        heading = place.find(["h3", "h4"]) or place.find_next_sibling(["h3", "h4"])
        if isinstance(heading, Tag):
            found[str(place["id"])] = [heading, *section_of(heading)]
    return {f"{page}.html#{name}": card(parts, page) for name, parts in found.items()}


def section_of(heading: Tag) -> list[Tag]:
    """Return the first paragraphs below a heading."""
    parts, size = [], 0
    for part in heading.find_next_siblings():
        size += len(part.get_text())
        if part.name not in ("p", "ul", "ol", "div") or (parts and size > LONGEST):
            break
        if part.name != "div" or "math" in part.get("class", ()):
            parts.append(part)
    return parts


def card(parts: list[Tag], page: str) -> str:
    """Return parts of a page as HTML that can be shown on any page."""
    html = BeautifulSoup("".join(map(str, parts)), "html.parser")
    for part in html.select(".headerlink, .cell, img, script"):
        part.decompose()
    for link in html.select("a[href]"):
        address = str(link["href"])
        if not re.match(r"[a-z]+:", address):
            name, _, place = address.partition("#")
            target = normpath(join(dirname(page), name)) if name else f"{page}.html"
            link["href"] = f"{target}#{place}" if place else target
    for heading in html.select("h3, h4"):
        heading.name, heading["class"] = "p", "card-title"
    for part in html.find_all(True):
        part.attrs.pop("id", None)
    return str(html)


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the scripts and the ZIP files."""
    if error is not None or app.builder.format != "html":
        return
    texts: dict[str, str] = {}
    shown: dict[str, str] = {}
    for name in sorted(app.env.found_docs):
        path = Path(app.outdir, f"{name}.html")
        text = path.read_text(encoding="utf-8")
        page = BeautifulSoup(text, "html.parser", parse_only=SoupStrainer("article"))
        if article := page.select_one("article"):
            shown |= cards(article, name)
            texts[name] = words(article)
    for file, variable, content in ((TEXTS, "searchTexts", texts), (CARDS, "cardTexts", shown)):
        script = f"window.{variable} = {json.dumps(content, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", file).write_text(script, encoding="utf-8")
    for notebook in Path(app.outdir, "_sources").rglob("*.ipynb"):
        with ZipFile(f"{notebook}.zip", "w", ZIP_DEFLATED) as archive:
            archive.writestr(ZipInfo(notebook.name), notebook.read_bytes())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
