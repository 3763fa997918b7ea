"""What a browser refuses on the file system, given in another way.

No script may read a page there, so a search could show no words around what it found: the words of
all pages go into one script, which the search page alone loads (see `book.js`). And a link to a
notebook shows its JSON instead of saving it: beside each notebook lies a ZIP file of it.
"""

import json
from html import escape
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from docutils import nodes
from sphinx.application import Sphinx

SCRIPT = "search_texts.js"


def words(doctree: nodes.document) -> str:
    """Return the text of a page as HTML that has nothing but its sections."""

    def section(node: nodes.section) -> str:
        first, *others = node["ids"]
        names = "".join(f'<a id="{escape(name)}"></a>' for name in others)
        inner = " ".join(
            section(child) if isinstance(child, nodes.section) else escape(child.astext())
            for child in node.children
            if not isinstance(child, nodes.title)
        )
        return f'<section id="{escape(first)}">{names}{inner}</section>'

    parts = [section(child) for child in doctree.children if isinstance(child, nodes.section)]
    return f'<div role="main">{"".join(parts)}</div>'


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the script and the ZIP files."""
    if error is not None or app.builder.format != "html":
        return
    texts = {name: words(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
    script = Path(app.outdir, "_static", SCRIPT)
    script.write_text(f"window.searchTexts = {json.dumps(texts)};\n", encoding="utf-8")
    for notebook in Path(app.outdir, "_sources").rglob("*.ipynb"):
        with ZipFile(f"{notebook}.zip", "w", ZIP_DEFLATED) as file:
            file.writestr(ZipInfo(notebook.name), notebook.read_bytes())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
