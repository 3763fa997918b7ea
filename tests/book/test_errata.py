"""The table of errata and its entries agree, and each entry says what was done to check it."""

import ast
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CELLS = nbformat.read(ROOT / "book" / "errata.ipynb", as_version=4).cells
TEXTS = [cell.source for cell in CELLS if cell.cell_type == "markdown"]
ROW = r"^\| {ref}`(\d+) <erratum-(\d+)>` \| (.+) \| (.+) \| \[(\w+)\]{\.verdict \.(\w+)} \|$"
ENTRY = r"\(erratum-(\d+)\)=\n### (\d+)\. (.+)\n\n\*(.+)\*\n"
REMARK_ROW = r"^\| {ref}`(\d+) <remark-(\d+)>` \| (.+) \| (.+) \|$"
REMARK = r"\(remark-(\d+)\)=\n### Remark (\d+)\. (.+)\n\n\*(.+)\*\n"
ROWS = re.findall(ROW, TEXTS[0], re.M)
ENTRIES = {int(found[1]): text for text in TEXTS[1:] if (found := re.search(ENTRY, text))}
REMARKS = {int(found[1]): text for text in TEXTS[1:] if (found := re.search(REMARK, text))}
NAMED = {f"erratum-{n}": text for n, text in ENTRIES.items()} | {
    f"remark-{n}": text for n, text in REMARKS.items()
}


@cache
def names_of_tests(folder: Path) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("test_*.py")]
    return {n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def test_rows_are_numbered_from_one_and_lead_to_the_entries() -> None:
    numbers = sorted((int(shown), int(target)) for shown, target, *_ in ROWS)
    assert numbers == [(n, n) for n in range(1, len(ENTRIES) + 1)]


def test_claims_come_first_and_each_leads_the_page_with_its_repair() -> None:
    kinds = [kind for *_, kind, _ in ROWS]
    assert kinds == sorted(kinds)  # claims, gaps, slips
    claims = [int(number) for number, *_, kind, _ in ROWS if kind == "claim"]
    leading = re.findall(r"^- {ref}`Erratum (\d+) <erratum-\d+>`: .* \*Repair:\* ", TEXTS[0], re.M)
    assert [int(number) for number in leading] == claims


def test_entries_stand_in_the_order_of_their_numbers() -> None:
    assert list(ENTRIES) == sorted(ENTRIES)
    assert list(NAMED)[-len(REMARKS) :] == [f"remark-{n}" for n in range(1, len(REMARKS) + 1)]


def place(where: str) -> int:
    """The place of the section of the paper that an entry is about."""
    last_equation = {"1": 0, "2": 2, "3": 12, "4": 24, "A": 28, "C": 36, "D": 37, "E": 46}
    last_equation |= {"F": 52, "G": 76, "H": 106, "I": 113, "J": 128}
    order = list("12345ABCDEFGHIJ")
    if found := re.search(r"eqs?\. \((\d+)\)", where.partition(" against ")[0]):
        section = next(s for s, last in last_equation.items() if int(found[1]) <= last)
    elif "Alg. 1" in where:
        section = "3"
    else:
        found = re.search(r"(?:Sec|Apps?|Theorem|Lemmas?|Corollary|Prop)\.? ([\dA-J])", where)
        section = found[1] if found else "J"
    return order.index(section)


def test_errata_are_numbered_in_the_order_of_the_paper() -> None:
    rows = sorted(ROWS, key=lambda row: int(row[0]))
    places = [place(where) for _, _, where, *_ in rows]
    assert places == sorted(places)


def test_rows_and_entries_say_the_same() -> None:
    for number, _, where, title, *_ in ROWS:
        found = re.search(ENTRY, ENTRIES[int(number)])
        assert found
        assert found.groups() == (number, number, title, where)
    remarks = re.findall(REMARK_ROW, TEXTS[0], re.M)
    assert [int(number) for number, *_ in remarks] == list(REMARKS)
    for number, _, where, title in remarks:
        found = re.search(REMARK, REMARKS[int(number)])
        assert found
        assert found.groups() == (number, number, title, where)


def test_kinds_are_those_that_the_page_explains() -> None:
    assert all(kind == colour for *_, kind, colour in ROWS)
    assert {kind for *_, kind in ROWS} == set(re.findall(r"^- a \*\*(\w+)\*\*", TEXTS[0], re.M))


@pytest.mark.parametrize("name", NAMED)
def test_an_entry_says_what_is_printed_what_holds_and_how_it_was_checked(name: str) -> None:
    text = NAMED[name]
    parts = re.findall(r"^\*\*(Printed|Holds|Checked)\.\*\* \S", text, re.M)
    assert parts == ["Printed", "Holds", "Checked"]
    position = next(i for i, cell in enumerate(CELLS) if cell.source == text)
    shown = position + 1 < len(CELLS) and CELLS[position + 1].cell_type == "code"
    tests = re.findall(r"`(test_\w+)`", text)
    linked = re.search(r"{(?:doc|ref|prf:ref)}`", text.partition("**Checked.**")[2])
    assert shown or tests or linked or "by reading" in text.lower()
    assert set(tests) <= names_of_tests(ROOT / "tests")


def chapters_by_label() -> dict[str, tuple[str, str]]:
    """The chapter that has each label of the book, and all text of that chapter."""
    found = {}
    for path in (ROOT / "book").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        figures = [cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in cells]
        labels = re.findall(r"^\((\S+)\)=$|^:label: (\S+)$|^\$\$ \((\S+)\)$", text, re.M)
        for label in [path.stem, *figures, *(name for names in labels for name in names if name)]:
            found[label] = path.stem, text
    return found


LABELS = chapters_by_label()


@pytest.mark.parametrize("entry", NAMED)
def test_an_entry_leads_to_a_chapter_that_leads_back(entry: str) -> None:
    roles = r"{(?:doc|ref|numref|prf:ref|eq)}`(?:[^`<]*<)?([\w-]+)>?`"
    targets = [LABELS[label] for label in re.findall(roles, NAMED[entry])]
    chapters = {chapter: text for chapter, text in targets if chapter != "errata"}
    assert chapters
    silent = [name for name, text in chapters.items() if f"<{entry}>" not in text]
    assert silent == []
