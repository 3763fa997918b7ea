"""The directive `ledger`: one section of `ledger.yml` as a table, with links to what carries it."""

from collections.abc import Iterable
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

COLUMNS = {"Claim": 30, "Verdict": 18, "Where": 22, "Checked by": 30}  # and widths


class Ledger(SphinxDirective):
    """A table of claims; the argument is the section's title in `ledger.yml`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Read the section, and build the table."""
        path = Path(self.env.doc2path(self.env.docname)).with_name("ledger.yml")
        self.env.note_dependency(str(path))
        claims = yaml.safe_load(path.read_text(encoding="utf-8"))[self.arguments[0]]
        group = nodes.tgroup(cols=len(COLUMNS))
        group += [nodes.colspec(colwidth=width) for width in COLUMNS.values()]
        group += nodes.thead("", row(*([nodes.paragraph(text=name)] for name in COLUMNS)))
        group += nodes.tbody("", *(self.claim(claim) for claim in claims))
        return [nodes.table("", group, classes=["colwidths-given", "ledger"])]

    def claim(self, claim: dict) -> nodes.row:
        """Return the row of one claim."""
        items = ", ".join(claim["items"]).replace("-", "–")
        if items.startswith("("):
            items = f"Eq. {items}"
        errata = claim.get("errata", [])
        verdict = [nodes.paragraph(text=claim["verdict"])]
        if errata:
            links = listed(link(f"errata#erratum-{number}", str(number)) for number in errata)
            word = "erratum " if len(errata) == 1 else "errata "
            verdict.append(nodes.paragraph("", "", nodes.Text(word), *links))
        pages = listed(link(page, page.partition("#")[0]) for page in claim["chapters"])
        where = [nodes.paragraph("", "", *pages)]
        if claim.get("code"):
            where.append(nodes.paragraph("", "", *listed(map(self.code, claim["code"]))))
        return row(
            [
                nodes.paragraph("", "", nodes.strong(text=items)),
                nodes.paragraph(text=claim["what"]),
            ],
            verdict,
            where,
            [tested(name) for name in claim.get("tests", [])],
        )

    def code(self, name: str) -> nodes.Node:
        """Return a link to the API reference."""
        short = name.rpartition(".")[2]
        reference = pending_xref(
            "", nodes.literal(text=short), refdomain="py", reftype="obj", reftarget=name
        )
        reference["refdoc"] = self.env.docname
        return reference


def tested(name: str) -> nodes.Node:
    """Return a test's claim, and where it stands."""
    file, _, claim = name.partition("::")
    text = claim.replace("_", " ")
    return nodes.paragraph("", text + " ", nodes.emphasis(text=f"({file})"))


def link(page: str, text: str) -> nodes.Node:
    """Return a link to a page of the book, with a label or without."""
    name, _, label = page.partition("#")
    return nodes.reference("", text, refuri=f"{name}.html" + (f"#{label}" if label else ""))


def listed(parts: Iterable[nodes.Node]) -> list[nodes.Node]:
    """Return parts with commas between them."""
    return [node for part in parts for node in (nodes.Text(", "), part)][1:]


def row(*cells: list[nodes.Node]) -> nodes.row:
    """Return a row of a table."""
    return nodes.row("", *(nodes.entry("", *cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("ledger", Ledger)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
