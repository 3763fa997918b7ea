"""Whoever cites the software gets the version that it has."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file

import dpbai

ROOT = Path(__file__).resolve().parents[2]


def test_files_about_the_software_agree_with_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    described = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"] == dpbai.__version__ == described["version"]
    assert citation["keywords"] == described["keywords"][: len(citation["keywords"])]
    needed = {re.split("[<>=]", name)[0] for name in project["dependencies"]}
    assert needed == set(described["softwareRequirements"])


def test_the_paper_about_the_software_cites_works_of_the_bibliography() -> None:
    text = (ROOT / "paper.md").read_text(encoding="utf-8")
    works = set(re.findall(r"@(\w+)", text))
    assert works
    assert works <= set(BIBLIOGRAPHY)


@pytest.mark.parametrize("key", ["version", "title"])
def test_the_page_agrees_with_the_citation_file(key: str) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    page = (ROOT / "book" / "cite.md").read_text(encoding="utf-8")
    assert re.findall(rf"^ *{key} *= {{(.*)}},$", page, re.M) == [citation[key]]


BIBLIOGRAPHY = parse_file(ROOT / "book" / "references.bib").entries


@cache
def cited() -> set[str]:
    """Return the works that the book cites."""
    paths = [*(ROOT / "book").glob("*.ipynb"), *(ROOT / "book").glob("*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return set(re.findall(r"{cite(?::[pt])?}`(\w+)`", text))


@cache
def library() -> str:
    """Return all that the library says."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dpbai").rglob("*.py"))


@pytest.mark.parametrize("key", BIBLIOGRAPHY)
def test_a_work_can_be_reached_and_is_named_in_the_book_or_the_library(key: str) -> None:
    assert {"doi", "eprint", "url"} & set(BIBLIOGRAPHY[key].fields)
    assert key in cited() or BIBLIOGRAPHY[key].persons["author"][0].last_names[-1] in library()


def test_no_work_is_cited_that_is_not_in_the_bibliography() -> None:
    assert cited() <= set(BIBLIOGRAPHY)
