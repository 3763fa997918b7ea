"""A chapter runs through when its parameters are changed, and its checks say what they check."""

import ast

import changes
import pytest

CHAPTERS = sorted(path.stem for path in changes.BOOK.glob("*.ipynb"))
QUICK = ("max_det", "upper_bound", "numerical_study")
"""The others, which take more than a few seconds, are run by `make changes`."""


def test_every_chapter_that_declares_parameters_has_others_to_run_with() -> None:
    declaring = {name for name in CHAPTERS if any(map(changes.declares, changes.cells(name)))}
    assert declaring == set(changes.CHANGES)


@pytest.mark.parametrize("chapter", QUICK)
def test_chapter_runs_through_with_other_parameters(chapter: str) -> None:
    changes.run(chapter)


def test_a_change_reaches_the_first_assignment_only() -> None:
    values = {"seed": "3", "budgets": "[1, 2]"}
    tree = changes.changed("seed, T = 0, 400\nbudgets = [5]\nbudgets = [6]", values)
    assert ast.unparse(tree) == "seed, T = (3, 400)\nbudgets = [1, 2]\nbudgets = [6]"
    assert values == {}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_assertions_say_what_they_check(chapter: str) -> None:
    silent = [
        ast.unparse(node)
        for cell in changes.cells(chapter)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert silent == []
