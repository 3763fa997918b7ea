"""Pages that are joined for the PDF keep their identifiers apart and their links alive."""

from pathlib import Path

import pdf
import pytest
from bs4 import BeautifulSoup, Tag
from pypdf import PdfWriter

HEAD = """<head><meta charset="utf-8"><title>{title} — The book</title>
<link rel="stylesheet" href="../_static/a.css"><script src="../_static/mathjax/a.js"></script>
<script src="../_static/theme.js"></script></head>"""
FIRST = r"""
<section id="one"><h1>One<a class="headerlink" href="#one">#</a></h1>
<section id="summary"><h2>At <span class="math">\(\varepsilon = 1\)</span></h2>
<p>See <a class="internal" href="two.html#summary">there</a>, <a class="internal" href="two.html">two</a>,
<a class="internal" href="#summary">here</a>, <a href="../genindex.html#x">the index</a> and <a href="https://example.org/">elsewhere</a>.</p>
<details class="hide"><pre>how to plot</pre></details>
<div class="dropdown admonition"><p>A solution, <span class="math">\(x^2\)</span>.</p></div>
</section></section>
"""  # noqa: E501
SECOND = r"""<section id="two"><p class="part">Theory &gt;</p>
<h1>Two, <span class="math">\(x^2\)</span></h1>
<section id="summary"><h2>Summary</h2><label for="box">Box</label><input id="box">
<section><h3>A plane</h3><p>Drag.</p><div class="plane"></div></section>
<table class="ledger"><tr><td>Claim<details><pre>pytest</pre></details></td></tr></table>
<div class="exercise">1?</div><div class="solution">1!</div>
<div class="exercise">2?</div><div class="solution">2!</div></section>
</section>"""


@pytest.fixture
def joined(tmp_path: Path) -> BeautifulSoup:
    for name, body in (("one", FIRST), ("two", SECOND)):
        text = (
            HEAD.format(title=name) + f'<body><article class="bd-article">{body}</article></body>'
        )
        (tmp_path / f"{name}.html").write_text(f"<html>{text}</html>", encoding="utf-8")
    return BeautifulSoup(pdf.join([tmp_path / "one.html", tmp_path / "two.html"]), "html.parser")


def text(tag: Tag | None) -> str:
    assert tag is not None
    return tag.get_text()


def test_identifiers_are_unique(joined: BeautifulSoup) -> None:
    names = [tag["id"] for tag in joined.find_all(id=True)]
    assert len(set(names)) == len(names)
    assert joined.select_one("label")["for"] == "two--box"


def test_solutions_come_after_all_exercises(joined: BeautifulSoup) -> None:
    found = joined.select(".exercise, .solution")
    assert [part.get_text() for part in found] == ["1?", "2?", "1!", "2!"]


def test_the_plane_and_the_commands_of_the_ledger_are_left_out(joined: BeautifulSoup) -> None:
    assert "Drag" not in joined.get_text()
    assert "pytest" not in joined.get_text()
    assert text(joined.select_one("table.ledger")) == "Claim"


def test_contents_name_the_parts(joined: BeautifulSoup) -> None:
    entries = [entry.get_text() for entry in joined.select(".contents > li")]
    assert [entry.partition(",")[0] for entry in entries] == ["One", "Theory", "Two"]


def test_links_lead_to_what_they_named(joined: BeautifulSoup) -> None:
    links = {link.get_text(): link.get("href") for link in joined.select("p a")}
    assert links == {
        "there": "#two--summary",
        "two": "#two",
        "here": "#one--summary",
        "the index": None,
        "elsewhere": "https://example.org/",
    }
    for address in [link for link in links.values() if link and link.startswith("#")]:
        assert joined.find(id=address[1:])
    assert joined.find(id="two").find_parent("h1").get_text().startswith("Two")


def test_pages_of_a_folder_below_are_joined_too(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name, link in (("one", "below/two.html#place"), ("below/two", "../one.html")):
        body = f'<h1>{name}</h1><p id="place"><a href="{link}">x</a></p>'
        text = HEAD.format(title=name) + f'<article class="bd-article">{body}</article>'
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    joined = BeautifulSoup(
        pdf.join([tmp_path / "one.html", tmp_path / "below" / "two.html"]), "html.parser"
    )
    assert [link["href"] for link in joined.select("p a")] == ["#two--place", "#one"]
    assert len(joined.select("link")) == 1


def test_contents_list_the_pages(joined: BeautifulSoup) -> None:
    entries = [(link.get_text(), link["href"]) for link in joined.select("ol a")]
    assert entries == [("One", "#one"), (r"Two, \(x^2\)", "#two")]


def test_headings_spell_out_simple_formulas(joined: BeautifulSoup) -> None:
    assert text(joined.find(id="one--summary").h2) == "At ε = 1"
    assert joined.find(id="two--two").h1.select_one(".math")


def test_solutions_are_open_and_plotting_code_is_left_out(joined: BeautifulSoup) -> None:
    assert joined.select(".dropdown, .hide") == []
    assert "A solution" in joined.get_text()
    assert "how to plot" not in joined.get_text()


def test_styles_and_the_scripts_of_formulas_are_taken_once(joined: BeautifulSoup) -> None:
    assert len(joined.select("link")) == 1
    scripts = [script["src"] for script in joined.select("script[src]")]
    assert scripts == ["../_static/mathjax/a.js"]
    assert text(joined.title) == "The book"


def test_links_to_other_pages_and_the_contents_tell_numbers(joined: BeautifulSoup) -> None:
    numbered = BeautifulSoup(pdf.number(str(joined), {"one": 3, "two": 14}), "html.parser")
    assert [text(entry) for entry in numbered.select("ol li")] == [
        "One3",
        "Theory",
        r"Two, \(x^2\)14",
    ]
    paragraph = text(numbered.find(id="one--summary").p)
    assert "See there, two (p. 14),\nhere, the index and elsewhere" in paragraph


def test_numbers_are_those_of_the_pages_that_links_lead_to(tmp_path: Path) -> None:
    writer = PdfWriter()
    for number, name in enumerate(("one", "two")):
        writer.add_blank_page(100, 100)
        writer.add_named_destination(name, number)
    writer.write(tmp_path / "a.pdf")
    assert pdf.page_numbers(tmp_path / "a.pdf") == {"one": 1, "two": 2}


def test_page_that_is_not_built_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pdf.join([tmp_path / "gone.html"])
