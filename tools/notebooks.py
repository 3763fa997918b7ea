"""Run chapters, as many at a time as there are cores.

`make notebooks` runs all chapters of `_toc.yml` in place, so that a second run changes no byte;
name files to run only those. With `--into FOLDER`, nothing is changed: the executed notebooks go
into a cache of that name. `make test` compares stored outputs with it (`book/conftest.py`), and
`make book` builds from it (`book/_ext/executed.py`).
"""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter

import nbformat
import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {("index", "fig-success"): ROOT / "book/_static/success.svg"}
"""Figures that the README shows: chapter and name, and the file that holds a copy."""
LONGEST = ("beyond", "numerical_study")
TIMEOUT = 300  # seconds per cell


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
    # Widgets get random names; the order in which they are shown is the same in each run.
    number = count()
    text = re.sub(
        r'(?<="model_id": ")[0-9a-f]{32}',
        lambda _: f"{next(number):032x}",
        nbformat.writes(notebook),
    )
    clean = nbformat.reads(text, as_version=4)

    clean.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"file_extension": ".py", "name": "python"},
        }
    )
    for position, cell in enumerate(clean.cells):
        cell.id = f"cell-{position:02d}"
        for key in ("execution", "ExecuteTime", "collapsed", "scrolled", "jupyter", "trusted"):
            cell.metadata.pop(key, None)
    return clean


async def execute(path: Path) -> NotebookNode:
    """Return a notebook with the outputs of a fresh run."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        # Without it each kernel warns that others on this machine may read what it is sent.
        config=Config({"KernelManager": {"transport_encryption": "auto"}}),
        resources={"metadata": {"path": path.parent}},
    )
    await client.async_execute()
    notebook.metadata.pop("widgets", None)  # their controls need a kernel, which makes them anew
    return notebook


async def run(path: Path) -> None:
    """Run one notebook in place."""
    notebook = await execute(path)
    path.write_text(dumps(normalise(notebook)), encoding="utf-8")
    for (chapter, name), copy in PICTURES.items():
        if path == ROOT / f"book/{chapter}.ipynb":
            copy.write_text(on_white(figure(notebook, name)), encoding="utf-8")


async def run_into(folder: Path, path: Path) -> None:
    """Run one notebook, and store it with its outputs in a cache."""
    start = perf_counter()
    notebook = await execute(path)
    data = {"execution_seconds": perf_counter() - start}
    with opened(folder) as cache:
        cache.cache_notebook_bundle(CacheBundleIn(notebook, str(path), data=data), overwrite=True)


@contextmanager
def opened(folder: Path) -> Iterator[JupyterCacheAbstract]:
    """Open a cache of executed notebooks, and close its database, which it leaves open itself."""
    cache = get_cache(folder)
    try:
        yield cache
    finally:
        cache.db.dispose()


def on_white(svg: str) -> str:
    """Return a figure with a white background: its dark letters are not visible on a dark page."""
    return svg.replace("fill: none", "fill: #ffffff", 1)  # Matplotlib draws the ground first


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


async def run_all(paths: list[Path], task: Callable[[Path], Awaitable[None]]) -> int:
    """Run notebooks, and return how many failed."""
    cores = asyncio.Semaphore(os.cpu_count() or 1)

    async def tell(path: Path) -> bool:
        async with cores:
            try:
                await task(path)
            except Exception as error:  # whatever failed, say in which notebook
                print(f"FAILED  {path.name}\n{error}", flush=True)
                return True
        print(f"done  {path.name}", flush=True)
        return False

    return sum(await asyncio.gather(*map(tell, sorted(paths, key=by_length))))


def main(arguments: list[str]) -> int:
    """Run the named notebooks, or all chapters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--into", type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    task = partial(run_into, given.into.resolve()) if given.into else run
    paths = [path.resolve() for path in given.paths] or chapters()
    return 1 if asyncio.run(run_all(paths, task)) else 0


def by_length(path: Path) -> int:
    """Return a sort key: the longest chapters first, so that no core waits at the end."""
    return LONGEST.index(path.stem) if path.stem in LONGEST else len(LONGEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
