"""Equation numbers: the paper's equations keep its numbers, the others are B.1, B.2, ...

A label says which it is. `$$ ... $$ (eq-16)` is eq. (16) of the paper, `(eq-2-index)` is eq. (2)
shown again, and any other label is the book's own, numbered through all pages in their order.
"""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.math import MathDomain

PAPER = re.compile(r"eq-(\d+)(?:-[a-z]\w*)?")
LABEL = re.compile(r"\$\$ \(([\w-]+)\)")


def printed_number(label: str) -> str | None:
    """Return the paper's number of an equation, or None if it is not in the paper."""
    found = PAPER.fullmatch(label)
    return found[1] if found else None


def numbers(root: Path) -> dict[str, str]:
    """Return the number of each labelled equation, for the pages of a `_toc.yml` in order."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    own = 0
    for page in re.findall(r"(?:root|file): (\S+)", toc):
        path = next(p for s in (".ipynb", ".md") if (p := root / f"{page}{s}").is_file())
        for label in LABEL.findall(path.read_text(encoding="utf-8")):
            own += printed_number(label) is None
            found[label] = printed_number(label) or f"B.{own}"
    return found


class BookMath(MathDomain):
    """Sphinx's domain of equations, with these numbers."""

    def note_equation(self, docname: str, labelid: str, location: Any = None) -> None:
        """Give a labelled equation its number."""
        super().note_equation(docname, labelid, location)
        number = numbers(Path(self.env.srcdir))[labelid]
        self.equations[labelid] = (docname, number)  # type: ignore[assignment]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_domain(BookMath, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
