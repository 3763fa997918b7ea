"""Each check finds the fault that it is there for, and nothing in a sound notebook."""

import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import book_checks
import executed
import nbformat
import notebooks
import pytest
from nbformat import NotebookNode, v4

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "image": {"alt": "A line that rises from 0 to 1."},
    "figure": {"name": "fig-line", "caption": "A line."},
}


def picture(size: int = 100) -> NotebookNode:
    data = {"image/png": base64.b64encode(bytes(size)).decode(), "text/plain": "<Figure>"}
    return v4.new_output("display_data", data)


def printed(text: str) -> NotebookNode:
    return v4.new_output("stream", name="stdout", text=text)


def sound() -> NotebookNode:
    """Return a notebook with a formula, a number, a figure and an empty cell."""
    cells = [
        v4.new_markdown_cell(
            "# A chapter\n\nBy Theorem 4.20 it is 0.25, or 25.0 %.\n\n**Printed.** 0.26"
        ),
        v4.new_code_cell("print(1 / 4)", execution_count=1, outputs=[printed("0.25\n")]),
        v4.new_code_cell(""),
        v4.new_code_cell(
            "plot()\nprint(0.5)",
            execution_count=2,
            outputs=[picture(), printed("0.5\n")],
            metadata={"mystnb": OPTIONS},
        ),
    ]
    return notebooks.normalise(v4.new_notebook(cells=cells))


def outputs_cleared(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []


def run_twice(notebook: NotebookNode) -> None:
    notebook.cells[3].execution_count = 7


def raised(notebook: NotebookNode) -> None:
    error = v4.new_output("error", ename="ValueError", evalue="", traceback=[])
    notebook.cells[1].outputs = [error]


def no_alt(notebook: NotebookNode) -> None:
    del notebook.cells[3].metadata.mystnb["image"]


def blank_alt(notebook: NotebookNode) -> None:
    notebook.cells[3].metadata.mystnb.image.alt = " "


def no_caption(notebook: NotebookNode) -> None:
    del notebook.cells[3].metadata.mystnb.figure["caption"]


def two_images(notebook: NotebookNode) -> None:
    notebook.cells[3].outputs.append(picture())


def image_alone(notebook: NotebookNode) -> None:
    notebook.cells[3].source = "plot()"
    notebook.cells[3].outputs = [picture()]


def large_image(notebook: NotebookNode) -> None:
    notebook.cells[3].outputs[0] = picture(book_checks.LARGEST_FIGURE + 1)


def large_frame(notebook: NotebookNode) -> None:
    frame = base64.b64encode(bytes(book_checks.LARGEST_FIGURE + 10)).decode()
    notebook.metadata["widgets"] = {"value": f"<img src='data:image/png;base64,{frame}'>"}


def long_cell(notebook: NotebookNode) -> None:
    notebook.cells[1].source = "\n".join(f"x = {i}" for i in range(book_checks.LONGEST_CELL + 1))


def says(text: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        notebook.cells[1].outputs = [printed(text)]

    edit.__name__ = text
    return edit


def writes(text: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        notebook.cells[0].source += f"\n\n{text}"

    edit.__name__ = text
    return edit


def number_in_caption(notebook: NotebookNode) -> None:
    notebook.cells[3].metadata.mystnb.figure.caption = "A line up to 0.98."


def timed(notebook: NotebookNode) -> None:
    notebook.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}


BROKEN = [
    (outputs_cleared, book_checks.not_run),
    (run_twice, book_checks.not_run),
    (raised, book_checks.failed),
    (no_alt, book_checks.undescribed_images),
    (blank_alt, book_checks.undescribed_images),
    (no_caption, book_checks.undescribed_images),
    (two_images, book_checks.undescribed_images),
    (image_alone, book_checks.unchecked_images),
    (large_image, book_checks.large_images),
    (large_frame, book_checks.large_images),
    (long_cell, book_checks.long_cells),
    (says("saved to /home/someone/x.png"), book_checks.machine_specific),
    (says("<function f at 0x7f12ab34cd50>"), book_checks.machine_specific),
    (says("took 3.2 seconds"), book_checks.machine_specific),
    (says("100% 9/9 [00:01<00:00, 8.1it/s]"), book_checks.machine_specific),
    (timed, book_checks.not_normal),
    (writes("In truth it is 0.26."), book_checks.unsupported_numbers),
    (writes("It is $0.251$."), book_checks.unsupported_numbers),
    (writes("There are 1,234 of them."), book_checks.unsupported_numbers),
    (number_in_caption, book_checks.unsupported_numbers),
]


@pytest.mark.parametrize("check", book_checks.CHECKS, ids=lambda check: check.__name__)
def test_sound_notebook_has_no_finding(check: book_checks.Check) -> None:
    assert check(sound()) == []


@pytest.mark.parametrize(("fault", "check"), BROKEN, ids=lambda item: item.__name__)
def test_check_finds_the_fault(
    fault: Callable[[NotebookNode], None], check: book_checks.Check
) -> None:
    notebook = sound()
    fault(notebook)
    assert check(notebook)


def test_each_check_is_shown_to_fail() -> None:
    assert {check for _, check in BROKEN} == set(book_checks.CHECKS)


def test_assert_may_stand_for_print() -> None:
    notebook = sound()
    image_alone(notebook)
    notebook.cells[3].source = "%matplotlib inline\nplot()\nassert 1 < 2"
    assert book_checks.unchecked_images(notebook) == []


def test_long_cell_may_be_hidden() -> None:
    notebook = sound()
    long_cell(notebook)
    notebook.cells[1].metadata["tags"] = ["hide-input"]
    assert book_checks.long_cells(notebook) == []


def test_ordinary_text_is_not_machine_specific() -> None:
    notebook = sound()
    says("T/eps and 0.25 of 1/2; see dpbai/max_det.py; 0x1F; 10 arms; 400 items")(notebook)
    assert book_checks.machine_specific(notebook) == []


def test_table_of_contents_names_what_is_missing_and_what_is_left_out(tmp_path: Path) -> None:
    toc = tmp_path / "_toc.yml"
    toc.write_text("format: jb-book\nroot: book/index\nparts:\n- chapters:\n  - file: book/gone\n")
    (tmp_path / "book").mkdir()
    for name in ("index", "stray"):
        (tmp_path / "book" / f"{name}.ipynb").touch()
    assert book_checks.toc_mismatches(toc, tmp_path / "book") == [
        "book/gone: in _toc.yml, but no such file",
        "book/stray: not in _toc.yml",
    ]


@pytest.mark.parametrize(
    "line",
    [
        '      "resolved": "somewhere",',
        "--index" + "-url https://example.org/simple",
        "numpy @ https://example.org/numpy" + ".whl",
        "https://example.org/numpy-2.0" + ".tar.gz",
    ],
)
def test_download_address_is_found(line: str) -> None:
    assert book_checks.download_addresses(f"numpy==2.0\n{line}\n") == [line]


def test_running_twice_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "chapter.ipynb"
    source = "import ipywidgets\nprint(1)\nipywidgets.VBox([ipywidgets.IntSlider(max=3)])"
    path.write_text(nbformat.writes(v4.new_notebook(cells=[v4.new_code_cell(source)])))
    assert notebooks.main([str(path)]) == 0
    first = path.read_bytes()
    assert b"widget-view" in first
    assert notebooks.main([str(path)]) == 0
    assert path.read_bytes() == first
    assert [f for check in book_checks.CHECKS for f in check(nbformat.read(path, 4))] == []


def test_failing_notebook_is_named_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chapter.ipynb"
    path.write_text(nbformat.writes(v4.new_notebook(cells=[v4.new_code_cell("1 / 0")])))
    before = path.read_bytes()
    for options in ([], ["--into", str(tmp_path / "cache")]):
        assert notebooks.main([str(path), *options]) == 1
        assert "FAILED  chapter.ipynb" in capsys.readouterr().out
    assert path.read_bytes() == before
    with notebooks.opened(tmp_path / "cache") as cache:
        assert cache.list_cache_records() == []


def test_the_book_is_built_from_what_was_run_for_it_and_from_nothing_older(tmp_path: Path) -> None:
    path = tmp_path / "chapter.ipynb"
    cell = v4.new_code_cell("print(1 + 1)", outputs=[printed("stale\n")])
    path.write_text(nbformat.writes(v4.new_notebook(cells=[cell])))
    before = path.read_bytes()
    assert notebooks.main([str(path), "--into", str(tmp_path / "cache")]) == 0
    assert path.read_bytes() == before
    changed = v4.new_notebook(cells=[v4.new_code_cell("print(1 + 2)")])
    with notebooks.opened(tmp_path / "cache") as cache:
        found = cache.merge_match_into_notebook(nbformat.read(path, 4))[1]
        with pytest.raises(KeyError):
            cache.match_cache_notebook(changed)
    assert [output.text for output in found.cells[0].outputs] == ["2\n"]


def test_only_a_folder_named_for_this_build_replaces_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = SimpleNamespace(nb_execution_mode="force", nb_execution_cache_path="")
    executed.take_executed(None, config)
    assert config.nb_execution_mode == "force"
    monkeypatch.setenv(executed.FOLDER, "folder")
    executed.take_executed(None, config)
    assert (config.nb_execution_mode, config.nb_execution_cache_path) == ("cache", "folder")


def validated(folder: Path, *options: str | Path) -> str:
    """Return what pytest says of the notebooks right and wrong in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", folder]
        + ["-p", "no:cacheprovider", "--nbval-sanitize-with", ROOT / "book/sanitize.cfg"]
        + [*options, "right.ipynb", "wrong.ipynb"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_stored_outputs_are_compared_by_nbval_with_a_kernel_and_with_a_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "book/conftest.py").read_bytes())
    for name, stored in (("right", "1\n"), ("wrong", "2\n")):
        cell = v4.new_code_cell("print(1)", execution_count=1, outputs=[printed(stored)])
        notebook = notebooks.normalise(v4.new_notebook(cells=[cell]))
        (tmp_path / f"{name}.ipynb").write_text(nbformat.writes(notebook))
    executed = tmp_path / "executed"
    assert notebooks.main([f"{tmp_path}/right.ipynb", "--into", str(executed)]) == 0
    for options in (("--nbval",), ("--executed", executed)):
        found = validated(tmp_path, *options)
        assert "FAILED wrong.ipynb::Cell 0" in found
        assert "1 failed, 1 passed" in found


def test_a_chapter_whose_code_has_changed_since_the_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "book/conftest.py").read_bytes())
    for name, source in (("right", "print(1)"), ("wrong", "print(2)")):
        cell = v4.new_code_cell(source, execution_count=1, outputs=[printed("1\n")])
        notebook = notebooks.normalise(v4.new_notebook(cells=[cell]))
        (tmp_path / f"{name}.ipynb").write_text(nbformat.writes(notebook))
    executed = tmp_path / "executed"
    assert notebooks.main([f"{tmp_path}/right.ipynb", "--into", str(executed)]) == 0
    found = validated(tmp_path, "--executed", executed)
    assert "ERROR wrong.ipynb::Cell 0" in found
    assert "1 passed, 1 error" in found
