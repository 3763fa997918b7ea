"""What every committed chapter must fulfil.

Each check takes a notebook and returns what is wrong with it, one line per finding, so that the
checks can themselves be tested on notebooks that are broken on purpose. On the command line,
`python tools/book_checks.py FILE...` prints the findings.
"""

import ast
import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import notebooks
from nbformat import NotebookNode
from prose_numbers import unsupported_numbers

LONGEST_CELL = 18  # lines of at most 84 characters
LARGEST_FIGURE = 80_000  # bytes

MACHINE_SPECIFIC = {
    "absolute path": r"(?<![\w.:/<])/(?:home|root|tmp|usr|opt|var|work|mnt|srv|Users|private)/\w"
    r"|\b[A-Z]:\\\w",
    "memory address": r"\b0x[0-9a-fA-F]{6,}\b",
    "timing": r"\b\d+(?:\.\d+)? ?(?:it/s|s/it|ms|µs|ns|sec|secs|seconds)\b"
    r"|\bWall time\b|\bCPU times\b|\d\d:\d\d<[\d?]",
    "random name": r'\bid="T_[0-9a-f]{5}\b',
}
DOWNLOAD_ADDRESS = (
    r'"resolved"\s*:'
    r"|^\s*--?(?:index.url|extra.index.url|find.links|i|f)\b"
    r"|https?://\S+?\.(?:tgz|tar\.gz|whl|zip)\b"
    r"|@\s*https?://"
)

Check = Callable[[NotebookNode], list[str]]


def code_cells(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    """Yield the code cells that are not empty, with their positions."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and cell.source.strip():
            yield number, cell


def image_sizes(cell: NotebookNode) -> list[int]:
    """Return the size in bytes of each image that a code cell shows."""
    sizes = []
    for output in cell.outputs:
        for mime, data in output.get("data", {}).items():
            if mime == "image/svg+xml":
                sizes.append(len("".join(data).encode()))
            elif mime.startswith("image/"):
                sizes.append(len(base64.b64decode("".join(data))))
    return sizes


def output_texts(cell: NotebookNode) -> Iterator[str]:
    """Yield all text among a code cell's outputs."""
    for output in cell.outputs:
        if "text" in output:
            yield "".join(output.text)
        for mime, data in output.get("data", {}).items():
            if mime.startswith("text/"):
                yield "".join(data)


def not_run(notebook: NotebookNode) -> list[str]:
    """Every code cell has been run, once, from top to bottom."""
    cells = list(code_cells(notebook))
    return [
        f"cell {number}: execution count {cell.execution_count}, not {expected}"
        for expected, (number, cell) in enumerate(cells, start=1)
        if cell.execution_count != expected
    ]


def failed(notebook: NotebookNode) -> list[str]:
    """No cell ended in an exception."""
    return [
        f"cell {number}: {output.ename}"
        for number, cell in code_cells(notebook)
        for output in cell.outputs
        if output.output_type == "error"
    ]


def undescribed_images(notebook: NotebookNode) -> list[str]:
    """Every image has alternative text, a name to cite it by and a caption; one image a cell."""
    findings = []
    for number, cell in code_cells(notebook):
        images = len(image_sizes(cell))
        if not images:
            continue
        options = cell.metadata.get("mystnb", {})
        figure = options.get("figure", {})
        for what, text in [
            ("mystnb.image.alt", options.get("image", {}).get("alt")),
            ("mystnb.figure.name", figure.get("name")),
            ("mystnb.figure.caption", figure.get("caption")),
        ]:
            if not (isinstance(text, str) and text.strip()):
                findings.append(f"cell {number}: an image without {what} in the cell's metadata")
        if images > 1:
            findings.append(f"cell {number}: {images} images share one caption")
    return findings


def unchecked_images(notebook: NotebookNode) -> list[str]:
    """A cell with an image also prints or asserts the numbers that make it."""
    findings = []
    for number, cell in code_cells(notebook):
        prints = any(
            output.output_type == "stream" and output.name == "stdout" and output.text.strip()
            for output in cell.outputs
        )
        source = re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE)
        asserts = any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))
        if image_sizes(cell) and not prints and not asserts:
            findings.append(f"cell {number}: an image, but no number printed or asserted")
    return findings


def large_images(notebook: NotebookNode) -> list[str]:
    """Every image is small, also those inside prepared frames."""
    sizes = [(f"cell {n}", size) for n, cell in code_cells(notebook) for size in image_sizes(cell)]
    state = json.dumps(notebook.metadata.get("widgets", {}))
    sizes += [("a frame", len(data) * 3 // 4) for data in re.findall(r"base64,([\w+/=]+)", state)]
    return [f"{where}: an image of {size} bytes" for where, size in sizes if size > LARGEST_FIGURE]


def long_cells(notebook: NotebookNode) -> list[str]:
    """Code that the reader sees is short."""
    findings = []
    for number, cell in code_cells(notebook):
        lines = sum(bool(line.strip()) for line in cell.source.splitlines())
        hidden = {"hide-input", "remove-input"} & set(cell.metadata.get("tags", []))
        if lines > LONGEST_CELL and not hidden:
            findings.append(f"cell {number}: {lines} lines of code, without the tag hide-input")
    return findings


def machine_specific(notebook: NotebookNode) -> list[str]:
    """No output depends on the machine or the moment."""
    return [
        f"cell {number}: {what} in the output ({found.group()!r})"
        for number, cell in code_cells(notebook)
        for text in output_texts(cell)
        for what, pattern in MACHINE_SPECIFIC.items()
        if (found := re.search(pattern, text))
    ]


def not_normal(notebook: NotebookNode) -> list[str]:
    """The notebook is as `make notebooks` leaves it."""
    if notebooks.dumps(notebooks.normalise(notebook)) == notebooks.dumps(notebook):
        return []
    return ["not as `make notebooks` leaves it (times, versions or random names are stored)"]


CHECKS: list[Check] = [
    not_run,
    failed,
    undescribed_images,
    unchecked_images,
    large_images,
    long_cells,
    machine_specific,
    not_normal,
    unsupported_numbers,
]


def toc_mismatches(toc: Path, folder: Path) -> list[str]:
    """Every page of the table of contents exists, and every notebook of a folder is in it."""
    root = toc.parent
    listed = notebooks.pages(toc)
    missing = [
        f"{page}: in {toc.name}, but no such file"
        for page in listed
        if not any((root / f"{page}{suffix}").is_file() for suffix in (".ipynb", ".md"))
    ]
    found = [path.relative_to(root).with_suffix("").as_posix() for path in folder.glob("*.ipynb")]
    return missing + [f"{page}: not in {toc.name}" for page in sorted(set(found) - set(listed))]


def download_addresses(lock: str) -> list[str]:
    """Return the lines of a package lock that say where to download from."""
    return [line for line in lock.splitlines() if re.search(DOWNLOAD_ADDRESS, line)]


def main(arguments: list[str]) -> int:
    """Print what is wrong with the named notebooks."""
    findings = [
        f"{name}: {finding}"
        for name in arguments
        for check in CHECKS
        for finding in check(nbformat.read(name, as_version=4))
    ]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
