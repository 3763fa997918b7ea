"""Whoever cites the software gets the version that it has."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import dpbai

ROOT = Path(__file__).resolve().parents[2]


def test_citation_file_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"] == dpbai.__version__


@pytest.mark.parametrize("key", ["version", "title"])
def test_the_page_agrees_with_the_citation_file(key: str) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    page = (ROOT / "book" / "cite.md").read_text(encoding="utf-8")
    assert re.findall(rf"^ *{key} *= {{(.*)}},$", page, re.M) == [citation[key]]
