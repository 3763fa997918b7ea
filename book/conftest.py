"""Compare a chapter's stored outputs with the run that the book is built from.

`--executed FOLDER` names the folder that `tools/notebooks.py --into` has filled.
nbval collects the cells and compares the outputs, but starts no kernel. Without the
option, `pytest --nbval book/max_det.ipynb` runs a chapter as any notebook.
"""

from pathlib import Path

import pytest
from jupyter_cache import get_cache
from nbformat import NotebookNode
from nbval.plugin import IPyNbCell, IPyNbFile, coalesce_streams


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--executed", metavar="FOLDER", help="compare with the runs there"
    )


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.File | None:
    """Collect the cells of a chapter."""
    if parent.config.getoption("executed") and file_path.suffix == ".ipynb":
        return ExecutedChapter.from_parent(parent, path=file_path)
    return None


class ExecutedChapter(IPyNbFile):
    """A chapter, with the outputs of a run that has taken place."""

    fresh: list[NotebookNode]
    """Code cells as they were run, in order."""

    def setup(self) -> None:
        """Read the run of this chapter, with the code that it has now."""
        self.setup_sanitize_files()
        cache = get_cache(self.config.getoption("executed"))
        try:
            # KeyError: the chapter was not run, or its code has changed since.
            _, executed = cache.merge_match_into_notebook(self.nb)
        finally:
            cache.db.dispose()  # it leaves its database open
        self.fresh = [cell for cell in executed.cells if cell.cell_type == "code"]

    def collect(self):
        """Yield nbval's cells, none of which starts a kernel."""
        for cell in super().collect():
            yield ExecutedCell.from_parent(
                self,
                name=cell.name,
                cell_num=cell.cell_num,
                cell=cell.cell,
                options=cell.options,
            )


class ExecutedCell(IPyNbCell):
    """A cell, which nbval would run."""

    def runtest(self) -> None:
        """Compare what is stored with what came of the run, by nbval's rules."""
        self.test_outputs = coalesce_streams(
            self.parent.fresh[self.cell_num].outputs
        )
        if not self.compare_outputs(
            self.test_outputs, coalesce_streams(self.cell.outputs)
        ):
            self.raise_cell_error(
                "Cell outputs differ", "\n".join(self.comparison_traceback)
            )
