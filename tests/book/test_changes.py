"""A chapter runs through when its parameters are changed, and its checks say what they check."""

import ast
from pathlib import Path

import changes
import nbformat
import pytest
from nbformat import v4

CHAPTERS = sorted(path.stem for path in changes.BOOK.glob("*.ipynb"))


def test_every_chapter_that_declares_parameters_has_others_to_run_with() -> None:
    declaring = {name for name in CHAPTERS if any(map(changes.declares, changes.cells(name)))}
    assert declaring == set(changes.CHANGES)


def test_a_chapter_runs_through_with_other_parameters() -> None:
    """The quickest; `make changes` runs them all."""
    changes.run("dp_bai")


def test_a_change_reaches_the_first_assignment_only() -> None:
    values = {"seed": "3", "budgets": "[1, 2]"}
    tree = changes.changed("seed, T = 0, 400\nbudgets = [5]\nbudgets = [6]", values)
    assert ast.unparse(tree) == "seed, T = (3, 400)\nbudgets = [1, 2]\nbudgets = [6]"
    assert values == {}


def test_a_chapter_that_fails_with_other_parameters_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tags = {"tags": ["parameters"]}
    cells = [
        v4.new_code_cell("T = 400\ndefault = T == 400", metadata=tags),
        v4.new_code_cell("assert T < 500, 'too many'"),
    ]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "chapter.ipynb")
    monkeypatch.setattr(changes, "BOOK", tmp_path)
    for values, expected in [
        ({"T": "450"}, ""),
        ({"T": "600"}, "AssertionError: too many"),
        ({"T": "400"}, "the values are those of the chapter"),
        ({"T": "450", "K": "3"}, "chapter assigns nothing to K"),
    ]:
        monkeypatch.setitem(changes.CHANGES, "chapter", values)
        found = changes.failure("chapter")
        assert expected in found
        assert bool(expected) == bool(found)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_assertions_say_what_they_check(chapter: str) -> None:
    silent = [
        ast.unparse(node)
        for cell in changes.cells(chapter)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert silent == []
