"""A book of one page with formulas, a figure, an explorer and a solution, as in chapters."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import v4

ROOT = Path(__file__).resolve().parent.parent

TEXT = r"""
# A sample chapter

See {numref}`fig-line`, {prf:ref}`def-gap`, {eq}`eq-gap` and {cite:t}`chen2024fixed`.

```{prf:definition} Gap
:label: def-gap

The gap of arm $i$ is

$$ \Delta_i = \mu_{i^*} - \mu_i . $$ (eq-gap)
```

| a | wide | table | of | many | columns | that | does | not | fit |
| - | ---- | ----- | -- | ---- | ------- | ---- | ---- | --- | --- |
| 1 | 222222 | 333333 | 4 | 555555 | 666666 | 7777777 | 8 | 9 | 10 |

## A figure
"""
FIGURE = """
%config InlineBackend.figure_formats = ["svg"]
import matplotlib.pyplot as plt
plt.figure(figsize=(6, 3))
plt.plot([0, 1])
print("from 0 to 1")
"""
EXPLORER = r"""
import drawings
from dpbai.field import figures

def frame(value):
    with figures.canvas(size=(4, 2)) as (picture, axes):
        axes.plot([0, value])
    return picture, f"T = {value}", f"{value} pulls"

options = {str(value): value for value in range(3)}
print("pulls:", *options)
display(drawings.explorer(r"\(T\)", options, frame))
display(drawings.explorer("eps", options, frame, control="dropdown"))
"""
EXERCISE = """
```{exercise}
:label: ex-gap

What is the gap of the best arm?
```

```{solution} ex-gap
:class: dropdown

It is $0$.
```
"""


def build(folder: Path) -> Path:
    """Build the sample with the settings of the book, and return its page."""
    shutil.copytree(ROOT / "book/_static", folder / "book/_static")
    for name in ("_ext", "drawings"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name)
    for name in ("_config.yml", "book/references.bib", "book/bibliography.md"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n- file: book/bibliography\n"
    )
    metadata = {
        "mystnb": {
            "image": {"alt": "A line that rises from 0 to 1."},
            "figure": {"name": "fig-line", "caption": "A line, $y = x$."},
        }
    }
    cells = [
        v4.new_markdown_cell(TEXT.strip()),
        v4.new_code_cell(FIGURE.strip(), metadata=metadata),
        v4.new_markdown_cell("## An explorer"),
        v4.new_code_cell(EXPLORER.strip(), metadata={"tags": ["hide-input"]}),
        v4.new_markdown_cell("## Exercises\n" + EXERCISE),
    ]
    nbformat.write(v4.new_notebook(cells=cells), folder / "book/index.ipynb")
    done = subprocess.run(
        [Path(sys.executable).with_name("jupyter-book"), "build", folder]
        + ["--all", "-n", "-W", "--keep-going"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "_build/html/book/index.html"
