"""The paper's equations carry the paper's numbers, and the book's own a mark of their own."""

import re
from itertools import chain
from pathlib import Path

import equations
import nbformat
import paper_numbers
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
LAST = 128  # equation of the paper

NUMBERS = equations.numbers(ROOT)
CLAIMS = yaml.safe_load((BOOK / "ledger.yml").read_text(encoding="utf-8"))
SOURCE = r"""
\begin{document}
\section{One}\label{sec:one}
\begin{theorem}\label{thm:a} x \begin{equation} 1 \label{eq:a} \end{equation} \end{theorem}
\begin{align} a &= b \nonumber \\ &= c \label{eq:b} \\ d &= \begin{cases} 1 \\ 2 \end{cases} \end{align}
\appendix
\section{Two}
\begin{lemma}\label{lem:b} % \label{no}
\begin{align*} 1 \\ 2 \end{align*} \end{lemma}
\begin{equation} \label{eq:c} 1 \end{equation}
"""  # noqa: E501


def texts() -> dict[str, str]:
    """The markdown of each page."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in BOOK.glob("*.md")}
    for path in BOOK.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        found[path.stem] = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    return found


TEXTS = texts()


def equations_of(item: str) -> range:
    """The equations that an item of the ledger stands for."""
    found = re.fullmatch(r"\((\d+)\)(?:-\((\d+)\))?", item)
    return range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)


def pages_of_equations() -> dict[int, set[str]]:
    """The pages to which the ledger sends a reader for each of the paper's equations."""
    found: dict[int, set[str]] = {}
    for claim in chain.from_iterable(CLAIMS.values()):
        for number in chain.from_iterable(map(equations_of, claim["items"])):
            found[number] = {page.partition("#")[0] for page in claim["chapters"]}
    return found


def test_every_labelled_equation_has_a_number_and_no_two_of_the_books_own_the_same() -> None:
    labels = re.findall(r"^\$\$ \((\S+)\)$", "\n".join(TEXTS.values()), re.M)
    assert sorted(labels) == sorted(NUMBERS)
    own = [number for number in NUMBERS.values() if number.startswith("B.")]
    assert sorted(own, key=lambda n: int(n[2:])) == [f"B.{n}" for n in range(1, len(own) + 1)]


def test_a_label_says_whether_an_equation_is_the_papers() -> None:
    assert equations.printed_number("eq-16") == "16"
    assert equations.printed_number("eq-2-index") == "2"
    assert equations.printed_number("eq-pulls") is None
    printed = {int(n) for n in NUMBERS.values() if not n.startswith("B.")}
    assert printed <= set(range(1, LAST + 1))
    assert {2, 3, 4, 5, 6, 7, 8, 12, 14, 15, 16, 20, 21, 22, 23, 24, 55, 94} <= printed


def test_no_equation_has_a_number_of_its_own_making() -> None:
    assert [page for page, text in TEXTS.items() if r"\tag" in text] == []


@pytest.mark.parametrize("page", TEXTS)
def test_an_equation_of_the_paper_stands_where_the_ledger_says(page: str) -> None:
    pages = pages_of_equations()
    labels = re.findall(r"^\$\$ \((\S+)\)$", TEXTS[page], re.M)
    numbers = [int(n) for label in labels if (n := equations.printed_number(label))]
    shown_again = {int(n) for n in re.findall(r"^\$\$ \(eq-(\d+)-\w+\)$", TEXTS[page], re.M)}
    assert [n for n in numbers if n not in shown_again and page not in pages[n]] == []


@pytest.mark.parametrize("page", TEXTS)
def test_equations_that_the_text_names_exist_in_the_paper(page: str) -> None:
    named = re.findall(r"\beqs?\. \((\d+)\)(?:(?:,| and| to|-|–) \((\d+)\))?", TEXTS[page])
    assert [n for pair in named for n in pair if n and not 1 <= int(n) <= LAST] == []


def test_numbers_are_counted_as_latex_counts_them() -> None:
    assert paper_numbers.printed_numbers(SOURCE) == {
        "sec:one": "Section 1",
        "thm:a": "Theorem 1.1",
        "eq:a": "(1)",
        "eq:b": "(2)",
        "lem:b": "Lemma A.1",
        "eq:c": "(4)",
        "last equation": "(4)",
    }
