"""The directive `api`, for use inside `eval-rst`: names of the library, one on a line.

It makes a table of them with the first lines of their docstrings, then documents each in full.
`module.*` stands for all public names of a module: its `__all__`, or what it defines. Signatures
show what a caller can pass, and the name of a parameter is no link to an object of that name.
"""

import inspect
import re
import sys
from importlib import import_module
from types import ModuleType

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def locate(name: str) -> object | None:
    """Return what a dotted name means, or None: an attribute goes before a module of its name.

    `dpbai.simulate` is the function, and `dpbai.simulate.Simulation` a class of the module.
    """
    first, *others = name.split(".")
    found, path = import_module(first), first
    for part in others:
        holders = [found, import_module(path)] if path in sys.modules else [found]
        path += f".{part}"
        try:
            found = next(getattr(at, part) for at in holders if hasattr(at, part))
        except StopIteration:
            try:
                found = import_module(path)
            except ImportError:
                return None
    return found


def expanded(name: str) -> list[str]:
    """Return the names that `module.*` stands for."""
    if not name.endswith(".*"):
        return [name]
    module = locate(name.removesuffix(".*"))
    return [f"{module.__name__}.{member}" for member in public_names(module)]


def public_names(module: ModuleType) -> list[str]:
    """Return a module's `__all__`; without one, what it defines, in order."""
    defined = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return getattr(module, "__all__", defined)


def directive(obj: object) -> str:
    """Return the directive of autodoc that documents an object."""
    if inspect.isclass(obj):
        return "autoexception" if issubclass(obj, Exception) else "autoclass"
    return "autofunction" if callable(obj) else "autodata"


class Api(SphinxDirective):
    """A table of names, then the documentation of each."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Generate reStructuredText, and return its nodes."""
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


def readable(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, shown: str, gives: str
) -> tuple[str, str] | None:
    """Return a signature without private parameters, and with default objects by their names."""
    if not shown:
        return None
    if shown.startswith("(*args"):  # what a protocol has, or what Matplotlib takes
        return "", gives
    shown = re.sub(r", _\w+=\(\)", "", shown)
    return re.sub(r"<\w+ '?(?:\w+\.)*(\w+)'?>", r"\1", shown), gives


def without_defaults(
    _app: Sphinx, what: str, _name: str, obj: object, _skip: bool, _options: object
) -> bool | None:
    """Skip functions that are the default of a field of a class, and no methods of it."""
    default = what == "class" and inspect.isfunction(obj) and "." not in obj.__qualname__
    return True if default else None


def parameters_stay_plain(
    _app: Sphinx, what: str, name: str, obj: object, _options: object, lines: list[str]
) -> None:
    """Mark the names of parameters, and of a class's fields, so that they are not linked."""
    holder = locate(name.rpartition(".")[0]) if what in ("method", "property") else obj
    plain = set(getattr(holder, "__dataclass_fields__", ()))
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        plain |= set(inspect.signature(obj).parameters)
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"(?<![`:])`(\w+)`(?!`)",
            lambda word: f"`{word[0]}`" if word[1] in plain else word[0],
            line,
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-signature", readable)
    app.connect("autodoc-skip-member", without_defaults)
    app.connect("autodoc-process-docstring", parameters_stay_plain)
    app.add_directive("api", Api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
