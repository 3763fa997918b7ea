"""Theorems and other statements: those of the paper keep its numbers, the others are B.1, B.2, ...

The title says which it is: "Upper bound: Theorem 4.2" is the paper's, and links to it read so. The
book's number runs through all pages in their order, one count for theorems, lemmas, definitions and
the rest (`prf_realtyp_to_countertyp` in `_config.yml`); the paper's have it too, at the end of
their titles. Each statement has a link to itself, and a place in the index, where the search finds
it by its name. Names in the index that differ by a number are in the order of their numbers.
"""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_proof.domain import ProofDomain
from sphinx_proof.nodes import get_node_number, theorem_node, visit_enumerable_node

COUNTER = "theorem"
PAPERS = re.compile(
    r"(?:^|: )((?:Algorithm|Corollary|Definition|Lemmas?|Proposition|Theorem) (?:[A-Z]\.)?\d.*)$"
)


def papers_name(title: str) -> str | None:
    """Return the paper's name of the statement with this title, or None."""
    found = PAPERS.search(title.removeprefix(" (").removesuffix(")"))
    return found[1] if found else None


def name_of(env: BuildEnvironment, label: str) -> str:
    """Return the name of a statement: the paper's, or else its kind and the book's number."""
    told = env.proof_list[label]  # type: ignore[attr-defined]
    number = env.toc_fignumbers[told["docname"]][COUNTER][label]
    return told.get("paper") or f"{told['realtype'].title()} B.{'.'.join(map(str, number))}"


class Name(SphinxTransform):
    """Take the paper's names out of titles, and put what they name, and errata, into the index."""

    default_priority = 500  # before the index is collected

    def apply(self, **_: object) -> None:
        """Go through all statements of a page, and all errata and remarks."""
        for box in list(self.document.findall(theorem_node)):
            title, label = box[0], box["label"]
            told = self.env.proof_list[label]  # type: ignore[attr-defined]
            if paper := papers_name(box["title"]):
                told["paper"] = paper
                last = title[-1]
                rest = last.astext().removesuffix(f"{paper})").removesuffix(": ")
                title.replace(last, [nodes.Text(f"{rest})")] if rest != " (" else [])
                kind, *numbers = re.split(r" and | ", paper)
                names = [f"{kind.removesuffix('s')} {number}" for number in numbers]
                box.insert(1, entries(names, label))
        for place in list(self.document.findall(nodes.target)):
            kind, _, number = place.get("refid", "").partition("-")
            if kind in ("erratum", "remark") and number.isdigit():
                at = place.parent.index(place)
                place.parent.insert(at, entries([f"{kind.title()} {number}"], place["refid"]))


def entries(names: list[str], label: str) -> addnodes.index:
    """Return index entries for these names."""
    return addnodes.index(entries=[("single", name, label, "main", None) for name in names])


class Link(SphinxPostTransform):
    """End the title of a statement with the book's number and a link to it."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Go through all statements of a page."""
        for box in self.document.findall(theorem_node):
            label = box["label"]
            if self.env.proof_list[label].get("paper"):  # type: ignore[attr-defined]
                number = self.env.toc_fignumbers[self.env.docname][COUNTER][label]
                told = f"B.{'.'.join(map(str, number))}"
                box[0] += [nodes.Text(" "), nodes.inline("", told, classes=["book-number"])]
            box[0] += nodes.reference(
                "",
                "#",
                internal=True,
                refid=label,
                classes=["headerlink"],
                reftitle="Link to this statement",
            )


def depart(self: Any, box: theorem_node) -> None:
    """End the box of a statement, and replace the number that Sphinx has begun its title with."""
    number = get_node_number(self, box, COUNTER)
    place = len(self.body) - 1 - self.body[::-1].index(f"{COUNTER} {number} ")
    self.body[place] = f"{name_of(self.builder.env, box['label'])} "
    self.body.append("</div>")


class Statements(ProofDomain):
    """The domain of sphinx-proof, with links whose text is the name of the statement."""

    def resolve_xref(self, *given: Any) -> Any:
        """Return a link, with the name of the statement unless it has a text of its own."""
        shown = super().resolve_xref(*given)
        env, target, content = given[0], given[4], given[6]
        if shown is not None and target in content.astext():
            shown.children = []
            shown += nodes.Text(name_of(env, target))
        return shown


def by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key of names that compares words as text and numbers as numbers."""
    parts = re.findall(r"\d+|\D+", name.lower())
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def sort_index(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], _doc: object
) -> None:
    """Sort each letter of the index."""
    if page == "genindex":
        for _, names in context["genindexentries"]:
            names.sort(key=lambda entry: by_number(entry[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_domain(Statements, override=True)
    app.add_transform(Name)
    app.add_post_transform(Link)
    app.connect("html-page-context", sort_index)
    app.add_node(theorem_node, override=True, html=(visit_enumerable_node, depart))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
