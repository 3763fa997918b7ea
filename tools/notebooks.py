"""Run chapters again, in place, so that a second run changes no byte.

`make notebooks` runs all chapters of `_toc.yml`; name files to run only those.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {("index", "fig-success"): ROOT / "book/_static/success.svg"}
"""Figures that the README shows: chapter and name, and the file that holds a copy."""
TIMEOUT = 300  # seconds per cell
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"


def pages(toc: Path) -> list[str]:
    """Return the pages of a `_toc.yml` in order, as written there (no suffix)."""
    contents = yaml.safe_load(toc.read_text(encoding="utf-8"))

    def walk(node: object) -> list[str]:
        if isinstance(node, list):
            return [page for item in node for page in walk(item)]
        if isinstance(node, dict):
            own = [node[key] for key in ("root", "file") if key in node]
            return own + [page for value in node.values() for page in walk(value)]
        return []

    return walk(contents)


def chapters(toc: Path = ROOT / "_toc.yml") -> list[Path]:
    """Return the notebooks among the pages of a `_toc.yml`."""
    paths = [toc.parent / f"{page}.ipynb" for page in pages(toc)]
    return [path for path in paths if path.is_file()]


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without what differs from run to run: times, versions, random names."""
    text = nbformat.writes(notebook)
    # Widgets get random names; the order in which they were made is the same in each run.
    state = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for number, name in enumerate(state):
        if re.fullmatch(r"[0-9a-f]{32}", name):
            text = text.replace(name, f"{number:032x}")
    clean = nbformat.reads(text, as_version=4)

    kept = {key: clean.metadata[key] for key in ("widgets",) if key in clean.metadata}
    clean.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"file_extension": ".py", "name": "python"},
            **kept,
        }
    )
    for number, cell in enumerate(clean.cells):
        cell.id = f"cell-{number:02d}"
        for key in ("execution", "ExecuteTime", "collapsed", "scrolled", "jupyter", "trusted"):
            cell.metadata.pop(key, None)
    return clean


def run(path: Path) -> str:
    """Run one notebook in place; return an error message, empty if all went well."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": path.parent}},
    )
    try:
        client.execute()
    except Exception as error:  # whatever failed, say in which notebook
        return f"{path.name}: {error}"
    path.write_text(dumps(normalise(notebook)), encoding="utf-8")
    for (chapter, name), copy in PICTURES.items():
        if path == ROOT / f"book/{chapter}.ipynb":
            copy.write_text(figure(notebook, name), encoding="utf-8")
    return ""


def figure(notebook: NotebookNode, name: str) -> str:
    """Return the SVG of a named figure of a notebook."""
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == name:
            for output in cell.outputs:
                if "image/svg+xml" in output.get("data", {}):
                    return output.data["image/svg+xml"]
    raise ValueError(f"no figure is named {name}")


def dumps(notebook: NotebookNode) -> str:
    """Return a notebook as the text that is committed: a line of it for a line of each cell."""
    return nbformat.writes(notebook) + "\n"


def main(arguments: list[str]) -> int:
    """Run the named notebooks, or all chapters."""
    paths = [Path(name).resolve() for name in arguments] or chapters()
    with ThreadPoolExecutor(max_workers=2) as pool:
        failures = 0
        for path, error in zip(paths, pool.map(run, paths), strict=True):
            print(f"{'FAILED' if error else 'done'}  {path.name}", flush=True)
            if error:
                failures += 1
                print(error, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
