"""The directive `api`, for use inside `eval-rst`: names of the library, one on a line.

It makes a table of them with the first lines of their docstrings, then documents each in full.
`module.*` stands for all public functions and classes that a module defines.
"""

import inspect
from pydoc import locate

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def expanded(name: str) -> list[str]:
    """Return the names that `module.*` stands for, in the order of their definition."""
    if not name.endswith(".*"):
        return [name]
    module = name.removesuffix(".*")
    return [
        f"{module}.{member}"
        for member, obj in vars(locate(module)).items()
        if not member.startswith("_") and getattr(obj, "__module__", None) == module
    ]


def directive(obj: object) -> str:
    """Return the directive of autodoc that documents an object."""
    if inspect.isclass(obj):
        return "autoexception" if issubclass(obj, Exception) else "autoclass"
    return "autofunction" if callable(obj) else "autodata"


class Api(SphinxDirective):
    """A table of names, then the documentation of each."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Write reStructuredText and read it."""
        table = [".. list-table::", "   :widths: auto", ""]
        entries = []
        for name in [name for line in self.content for name in expanded(line)]:
            obj = locate(name)
            if obj is None:
                raise self.error(f"there is no {name}")
            kind = directive(obj)
            summary = (inspect.getdoc(obj) or "").partition("\n")[0]
            if kind == "autodata":
                summary = f"The constant {obj!r}."
            table += [f"   * - :py:obj:`~{name}`", f"     - {summary}"]
            entries += ["", f".. {kind}:: {name}"]
        container = nodes.Element()
        lines = StringList(table + entries, self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("api", Api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
