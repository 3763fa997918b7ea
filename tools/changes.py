"""Run chapters with other parameters than the stored ones, and report which of them fail.

A chapter whose parameters may be changed has an early cell with the tag `parameters`. The last name
that the cell assigns is `default`, which is true for the stored values. `make changes` runs all
such chapters with the values of `CHANGES`, one on each core; arguments name the chapters to run.
"""

import ast
import contextlib
import io
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import book_checks
import matplotlib
import nbformat
from nbformat import NotebookNode

BOOK = Path(__file__).resolve().parent.parent / "book"
sys.path.append(str(BOOK))  # as for a kernel that starts there, for `drawings`

CHANGES = {
    "beyond": {
        "seed": "2",
        "K": "300",
        "traits_seed": "1",
        "epsilon": "0.5",
        "T": "9000",
        "trials": "20",
        "paper": "dpbai.synthetic(seed=3)",
    },
    "dp_bai": {"seed": "1", "T": "900", "epsilon": "0.2", "trials": "50", "fewer": "20"},
    "dp_od": {"seed": "3", "T": "1000", "epsilon": "0.3", "trials": "100"},
    "gaussian": {"seed": "1", "T": "300", "epsilon": "0.3", "delta": "1e-4"},
    "max_det": {"seed": "5", "trials": "10"},
    "numerical_study": {
        "seed": "3",
        "T": "300",
        "epsilon": "0.3",
        "trials": "20",
        "budgets": "[100, 300]",
        "epsilons": "[0.3, 4]",
        "instance": "dpbai.Instance("
        "[[1, 0], [0.4, 0.5], [0, 1], [0.6, 0.1], [0.5, 0.4]], [0.5, 0.3])",
    },
    "phases": {"example": '{"arms": 300, "dimension": 6}', "T": "100", "seed": "2"},
    "private_design": {"T": "600", "epsilon": "0.4", "trials": "20"},
    "real_arms": {"epsilon": "0.5", "trials": "20"},
    "upper_bound": {"seed": "3", "traits_seed": "1", "epsilon": "0.5", "trials": "2000"},
    "your_own_arms": {"T": "900", "epsilon": "1", "trials": "50", "fewer": "50", "sessions": "5"},
}
"""For each chapter that declares parameters: other values, as a reader would type them.

They replace what is assigned to the name first, in the cell of parameters or in a later one.
"""


def cells(chapter: str) -> list[NotebookNode]:
    """Return the code cells of a chapter."""
    notebook = nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4)
    return [cell for _, cell in book_checks.code_cells(notebook)]


def declares(cell: NotebookNode) -> bool:
    """Whether a cell declares the parameters of its chapter."""
    return "parameters" in cell.metadata.get("tags", [])


def changed(source: str, values: dict[str, str]) -> ast.Module:
    """Return a cell that assigns the given values, and remove from `values` those that it uses."""
    tree = ast.parse(source)
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name) and target.id in values:
            node.value = ast.parse(values.pop(target.id), mode="eval").body
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for place, name in enumerate(target.elts):
                if isinstance(name, ast.Name) and name.id in values:
                    value.elts[place] = ast.parse(values.pop(name.id), mode="eval").body
    return ast.fix_missing_locations(tree)


def run(chapter: str) -> None:
    """Run a chapter in this process, with the values of `CHANGES`; raise what it raises."""
    matplotlib.use("Agg")
    values = dict(CHANGES[chapter])
    space: dict[str, object] = {"__name__": "chapter"}
    with contextlib.chdir(BOOK), contextlib.redirect_stdout(io.StringIO()):  # its data are there
        for number, cell in enumerate(cells(chapter)):
            code = compile(changed(cell.source, values), f"{chapter}, cell {number}", "exec")
            exec(code, space)
            if declares(cell) and space["default"]:
                raise ValueError(f"{chapter}: the values are those of the chapter")
    if values:
        raise ValueError(f"{chapter} assigns nothing to {', '.join(values)}")


def failure(chapter: str) -> str:
    """Run a chapter, and return the traceback of its failure, or an empty text."""
    try:
        run(chapter)
    except Exception:  # whatever failed
        return traceback.format_exc()
    return ""


def main(chapters: list[str]) -> int:
    """Run the named chapters, or all; return how many failed."""
    names = chapters or list(CHANGES)
    failed = 0
    with ProcessPoolExecutor() as cores:
        for chapter, trace in zip(names, cores.map(failure, names), strict=True):
            failed += trace != ""
            print(f"{trace}FAILED  {chapter}" if trace else f"runs through  {chapter}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
