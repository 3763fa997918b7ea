"""The ledger covers all that the paper numbers, and what it names exists."""

import ast
import json
import re
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import ledger_runs
import nbformat
import pytest
import yaml
from api_reference import locate

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
LEDGER = yaml.safe_load((BOOK / "ledger.yml").read_text(encoding="utf-8"))
CLAIMS = list(chain.from_iterable(LEDGER.values()))
OURS = [claim for claim in CLAIMS if claim["verdict"] == "proved here"]
"""What the paper does not have, and so does not number."""
LABELS = r"\(([\w-]+)\)=|:label: ([\w-]+)|:name: ([\w-]+)"

# What the paper numbers. Statements share a counter within each section.
STATEMENTS = {
    "2": "Definition",
    "3": "Definition",
    "4": "Proposition Theorem Lemma Corollary Lemma Definition Theorem",
    "A": "Lemma Definition Lemma Lemma",
    "C": "Definition Definition Corollary Proposition Proposition Corollary",
    "D": "Definition Proposition Proposition",
    "E": "Proposition",
    "G": "Lemma Lemma Lemma Lemma",
    "H": "Lemma Corollary Lemma Lemma Lemma Lemma",
    "J": "Lemma Lemma Lemma",
}
OTHERS = {"Remark": 4, "Algorithm": 2, "Table": 1, "Figure": 2}
EQUATIONS = 128
NUMBERED = (
    {
        f"{kind} {section}.{number}"
        for section, kinds in STATEMENTS.items()
        for number, kind in enumerate(kinds.split(), start=1)
    }
    | {f"{kind} {n}" for kind, last in OTHERS.items() for n in range(1, last + 1)}
    | {f"({n})" for n in range(1, EQUATIONS + 1)}
    | {"Table of App. B"}
)


def expanded(item: str) -> list[str]:
    """Return the equations that a range such as (29)-(32) stands for."""
    found = re.fullmatch(r"\((\d+)\)-\((\d+)\)", item)
    return [f"({n})" for n in range(int(found[1]), int(found[2]) + 1)] if found else [item]


def is_page(name: str) -> bool:
    return any((BOOK / f"{name}{suffix}").is_file() for suffix in (".ipynb", ".md"))


@cache
def labels(page: str) -> set[str]:
    """Return the labels that a page of the book defines."""
    path = BOOK / f"{page}.md"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        return set(chain.from_iterable(re.findall(LABELS, text)))
    cells = nbformat.read(BOOK / f"{page}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    figures = {cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in cells}
    return set(chain.from_iterable(re.findall(LABELS, text))) | figures - {None}


@cache
def claims_of(file: str) -> set[str]:
    """Return the claims that a file of tests checks."""
    paths = (ROOT / "tests").rglob(f"test_{file}.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    names = {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name.removeprefix("test_") for name in names if name.startswith("test_")}


def missing(claim: dict) -> list[str]:
    """Return what a claim names that does not exist."""
    absent = [name for name in claim.get("code", []) if locate(name) is None]
    for name in claim.get("tests", []):
        file, _, function = name.partition("::")
        if function not in claims_of(file):
            absent.append(name)
    pages = claim["chapters"] + [f"errata#erratum-{n}" for n in claim.get("errata", [])]
    pages += [f"errata#remark-{n}" for n in claim.get("remarks", [])]
    for page in pages:
        name, _, label = page.partition("#")
        if not is_page(name) or (label and label not in labels(name)):
            absent.append(page)
    return absent


def test_every_numbered_item_of_the_paper_has_one_row() -> None:
    of_the_paper = [claim["items"] for claim in CLAIMS if claim not in OURS]
    items = Counter(chain.from_iterable(map(expanded, chain(*of_the_paper))))
    assert sorted(NUMBERED - set(items)) == []
    assert sorted(set(items) - NUMBERED) == []
    assert [item for item, count in items.items() if count > 1] == []


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["items"][0])
def test_what_a_row_names_exists(claim: dict) -> None:
    assert missing(claim) == []


def test_each_command_says_how_many_cases_pass(request: pytest.FixtureRequest) -> None:
    runs = json.loads(ledger_runs.RUNS.read_text(encoding="utf-8"))
    assert sorted(runs) == ledger_runs.named()
    collected = Counter(item.nodeid.partition("[")[0] for item in request.session.items)
    for name, run in runs.items():  # of files that are tested together with this one
        assert run["test"] == ledger_runs.place(name)
        assert collected.get(run["test"], run["cases"]) == run["cases"], name


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["items"][0])
def test_a_row_is_backed_as_its_verdict_says(claim: dict) -> None:
    verdict = claim["verdict"]
    known = {"reproduced", "holds on the cases tried", "fails", "proof only", "proved here"}
    assert verdict in known
    assert claim["chapters"]
    if verdict != "proof only":
        assert claim["code"]
        assert claim["tests"]
    if verdict == "fails":
        assert claim["errata"]


def test_every_section_is_on_the_page() -> None:
    page = (BOOK / "ledger.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{ledger\} (.*)$", page, re.M) == list(LEDGER)


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        ("code", "dpbai.no_such_name"),
        ("tests", "ledger::no_such_claim"),
        ("tests", "no_such_file::mutant_is_caught"),
        ("chapters", "no_such_page"),
        ("chapters", "ledger#no-such-label"),
    ],
)
def test_a_broken_link_is_found(part: str, broken: str) -> None:
    assert missing({"chapters": [], part: [broken]}) == [broken]
    assert missing({"chapters": [], "errata": [10**6]}) == ["errata#erratum-1000000"]
