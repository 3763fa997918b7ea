"""The table of execution times names pages by their titles, in the order of the book."""

from types import SimpleNamespace
from typing import Any

import pytest
import versions
from docutils import nodes
from docutils.core import publish_from_doctree
from docutils.utils import new_document
from myst_nb.ext.execution_tables import make_stat_table
from sphinx.addnodes import pending_xref

TITLES = {"book/index": "Start", "book/last": "The end", "book/a": "A page"}


@pytest.fixture
def page() -> nodes.document:
    """MyST-NB's table of three pages, with links as plain text."""
    times = zip(TITLES, (1.26, 2.0, 30.44), strict=True)
    told = {"mtime": 1e9, "method": "cache", "succeeded": True, "error": None}
    ran = {name: {"exec_data": told | {"runtime": time}} for name, time in times}
    document = new_document("")
    document += make_stat_table("book/status", ran)
    for link in list(document.findall(pending_xref)):
        link.parent.replace(link, link.children)
    return document


def test_times_stand_beside_titles_in_the_order_of_the_book(page: nodes.document) -> None:
    titles = {name: nodes.title(text=title) for name, title in TITLES.items()}
    order = {"book/index": ["book/a", "book/last"]}
    app: Any = SimpleNamespace(
        config=SimpleNamespace(root_doc="book/index"),
        env=SimpleNamespace(toctree_includes=order, titles=titles),
    )
    versions.keep_times(app, page, "book/status")
    rows = [[cell.astext() for cell in row] for row in page.findall(nodes.row)]
    assert rows[0] == ["Page", "Time (s)"]
    assert rows[1:] == [["Start", "1.3"], ["A page", "30.4"], ["The end", "2.0"]]
    assert b"The end" in publish_from_doctree(page, writer_name="html5")
