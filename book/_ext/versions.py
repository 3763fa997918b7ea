"""The directive `versions`: a table of packages, one on a line, with their installed versions.

The table is made when the book is built, so that no version is stored in a notebook. The table of
execution times beside it names pages by their titles and says its status in words: not every
machine has a font with its signs.
"""

import platform
from importlib.metadata import version

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Versions(SphinxDirective):
    """A table of packages and versions; Python comes first."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Ask the environment."""
        rows = [("Python", platform.python_version())]
        rows += [(name, version(name)) for name in self.content]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in range(2)), cols=2)
        group += nodes.thead("", row("Package", "Version"))
        group += nodes.tbody("", *(row(*cells) for cells in rows))
        return [nodes.table("", group, classes=["colwidths-auto"])]


def row(*cells: str) -> nodes.row:
    """Return a row of a table."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def say_status(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace the signs for success and failure by words, and names of files by titles."""
    words = {"\N{WHITE HEAVY CHECK MARK}": "done", "\N{CROSS MARK}": "failed"}
    if docname.endswith("/status"):
        words |= {name: title.astext() for name, title in app.env.titles.items()}
    for text in [text for text in doctree.findall(nodes.Text) if text.astext() in words]:
        text.parent.replace(text, nodes.Text(words[text.astext()]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("versions", Versions)
    app.connect("doctree-resolved", say_status)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
