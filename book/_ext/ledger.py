"""The directive `ledger`: one section of `ledger.yml` as a table, with links to its evidence."""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

COLUMNS = {"Claim": 30, "Verdict": 18, "Where": 22, "Checked by": 30}  # and widths
SPELLED = {  # how the words in names of tests are written
    "dp bai gauss": "DP-BAI-Gauss",
    "dp bai": "DP-BAI",
    "dp od": "DP-OD",
    "od linbai": "OD-LinBAI",
    "table dp": "table-DP",
    "two armed": "two-armed",
    "two sided": "two-sided",
    "sub exponential": "sub-exponential",
    "section 5": "Sec. 5",
    "gauss": "Gauss",
    "gaussian": "Gaussian",
    "laplace": "Laplace",
    "hoeffding": "Hoeffding",
    "baseline": "Baseline",
    "audibert and bubeck": "Audibert and Bubeck",
    "papers": "paper's",
    "proofs": "proof's",
    "epsilon": "ε",
    "delta": "δ",
    "lambda": "λ",
    "tau": "τ",
    "tv": "TV",
    "n i t": "n_(i,t)",
    "h2": "H₂",
    "m h log of it": "M H log of it",
    "t prime": "T'",
    "eight t over log k": "8 T / log K",
    "65 64 12": "65, 64, 12",
    "theorem 4 2": "Theorem 4.2",
    "chernoffs": "Chernoff's",
    "chernoff": "Chernoff",
    "max det": "Max-Det",
    "dp design": "DP-Design",
}


class Ledger(SphinxDirective):
    """A table of claims; the argument is the section's title in `ledger.yml`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Read the section, and build the table."""
        path = Path(self.env.doc2path(self.env.docname)).with_name("ledger.yml")
        runs = path.with_name("ledger_runs.json")
        self.env.note_dependency(str(path))
        self.env.note_dependency(str(runs))
        self.runs = json.loads(runs.read_text(encoding="utf-8"))
        claims = yaml.safe_load(path.read_text(encoding="utf-8"))[self.arguments[0]]
        group = nodes.tgroup(cols=len(COLUMNS))
        group += [nodes.colspec(colwidth=width) for width in COLUMNS.values()]
        group += nodes.thead("", row(*([nodes.paragraph(text=name)] for name in COLUMNS)))
        group += nodes.tbody("", *(self.claim(claim) for claim in claims))
        return [nodes.table("", group, classes=["colwidths-given", "ledger"])]

    def claim(self, claim: dict) -> nodes.row:
        """Return the row of one claim."""
        items = re.sub(r"(?<=[\d)])-(?=[\d(])", "–", ", ".join(claim["items"]))
        if items.startswith("("):
            items = f"Eq. {items}"
        verdict = [nodes.paragraph("", "", badge(claim["verdict"]))]
        for one, many in (("erratum", "errata"), ("remark", "remarks")):
            found = claim.get(many, [])
            if found:
                links = listed(link(f"errata#{one}-{number}", str(number)) for number in found)
                word = nodes.Text(f"{one if len(found) == 1 else many} ")
                verdict.append(nodes.paragraph("", "", word, *links))
        pages = listed(link(page, self.title(page)) for page in claim["chapters"])
        tests = claim.get("tests", [])
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
            [*map(tested, tests), *command([self.runs[name] for name in tests])],
        )

    def title(self, page: str) -> str:
        """Return the title of a page of the book, without markup."""
        name = page.partition("#")[0]
        self.env.note_dependency(str(path := self.page(name)))
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "".join(json.loads(text)["cells"][0]["source"])
        found = re.search(r"^# (.+)$", text, re.MULTILINE)
        return found[1] if found else name

    def page(self, name: str) -> Path:
        """Return the source of a page."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        return next(path for s in (".ipynb", ".md") if (path := here / f"{name}{s}").is_file())

    def code(self, name: str) -> nodes.Node:
        """Return a link to the API reference."""
        short = name.rpartition(".")[2]
        reference = pending_xref(
            "", nodes.literal(text=short), refdomain="py", reftype="obj", reftarget=name
        )
        reference["refdoc"] = self.env.docname
        return reference


def tested(name: str) -> nodes.Node:
    """Return the claim of a test, and its file."""
    file, _, claim = name.partition("::")
    return nodes.paragraph("", sentence(claim) + " ", nodes.emphasis(text=f"({file})"))


def command(runs: Sequence[dict]) -> list[nodes.Node]:
    """Return the command that runs a claim's tests, what it ends with, and how long it takes."""
    if not runs:
        return []
    tests = " ".join(escape(run["test"]) for run in runs)
    cases = sum(run["cases"] for run in runs)
    share = sum(run["share"] for run in runs)
    time = f"{share:.1f} %" if share >= 0.1 else "less than 0.1 %"
    fold = (
        '<details class="numbers"><summary>Run it</summary>'
        f"<pre>.venv/bin/pytest -n 0 {tests}</pre>"
        f"<p>ends with <code>{cases} passed</code>, and takes {time} of the time of all.</p>"
        "</details>"
    )
    return [nodes.raw("", fold, format="html")]


def sentence(claim: str) -> str:
    """Return the claim in the name of a test as a plain sentence."""
    text = claim.replace("_", " ")
    for plain, spelled in SPELLED.items():
        text = re.sub(rf"\b{plain}\b", spelled, text)
    first = text.partition(" ")[0]
    return (text if len(first) == 1 and first != "a" else text[0].upper() + text[1:]) + "."


def badge(verdict: str) -> nodes.inline:
    """Return a verdict in a colour of its own."""
    return nodes.inline("", verdict, classes=["verdict", verdict.partition(" ")[0]])


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
