"""The directive `versions`: a table of packages, one on a line, with their installed versions.

The table is made when the book is built, so that no version is stored in a notebook. Of MyST-NB's
table of execution times beside it, the times are kept, of pages by their titles and in their order.
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
        """Read the installed versions."""
        rows = [("Python", platform.python_version())]
        rows += [(name, version(name)) for name in self.content]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in range(2)), cols=2)
        group += nodes.thead("", row("Package", "Version"))
        group += nodes.tbody("", *(row(*cells) for cells in rows))
        return [nodes.table("", group, classes=["colwidths-auto"])]


def row(*cells: str) -> nodes.row:
    """Return a row of a table."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def keep_times(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Keep only the page and its time in each row of the table of execution times."""
    if not docname.endswith("/status"):
        return
    order = [app.config.root_doc, *app.env.toctree_includes[app.config.root_doc]]
    table = list(doctree.findall(nodes.table))[-1]
    (group,), (head,), (body,) = (
        list(table.findall(kind)) for kind in (nodes.tgroup, nodes.thead, nodes.tbody)
    )
    rows = sorted(body.children, key=lambda row: order.index(row[0].astext()))
    for cells in rows:
        (name,) = cells[0].findall(nodes.Text)
        name.parent.replace(name, nodes.Text(app.env.titles[name.astext()].astext()))
        time = nodes.paragraph(text=f"{float(cells[3].astext()):.1f}")
        cells[1:] = [nodes.entry("", time)]
    head[:], body[:] = [row("Page", "Time (s)")], rows
    group[:] = [*(nodes.colspec(colwidth=1) for _ in range(2)), head, body]
    group["cols"] = 2


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("versions", Versions)
    app.connect("doctree-resolved", keep_times)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
