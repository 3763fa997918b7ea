"""The committed chapters, and the files around them, fulfil every check."""

from functools import cache
from pathlib import Path

import book_checks
import nbformat
import notebooks
import pytest
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"


@cache
def read(chapter: Path) -> NotebookNode:
    return nbformat.read(chapter, as_version=4)


@pytest.mark.parametrize("check", book_checks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("chapter", sorted(BOOK.glob("*.ipynb")), ids=lambda path: path.stem)
def test_chapter(chapter: Path, check: book_checks.Check) -> None:
    assert check(read(chapter)) == []


def test_there_are_chapters() -> None:
    assert notebooks.chapters()


def test_table_of_contents_is_complete() -> None:
    assert book_checks.toc_mismatches(ROOT / "_toc.yml", BOOK) == []


@pytest.mark.parametrize("lock", ["requirements.txt", "package-lock.json"])
def test_lock_has_no_download_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert book_checks.download_addresses(text) == []
