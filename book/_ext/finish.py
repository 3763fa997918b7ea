"""Changes to pages that no option of Sphinx or MyST-NB makes.

What a cell prints beside its figure is moved below the figure and folded. Folded code that draws a
figure is named accordingly. The word that begins a proof is set in italics, since proofs have no
box. Controls that only work in a running notebook are not printed.
"""

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

SUMMARY = "The numbers behind this figure"


class FoldNumbers(SphinxPostTransform):
    """Move printed numbers behind the figure of the same cell, into a block that opens."""

    default_priority = 900  # after the form in which each output is shown has been chosen
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Go through the outputs of all cells."""
        for output in self.document.findall(nodes.container):
            if "cell_output" not in output["classes"]:
                continue
            printed = [part for part in output.children if is_printed(part)]
            if printed and any(is_figure(part) for part in output.children):
                shown = [part for part in output.children if part not in printed]
                before = nodes.raw(
                    "", f'<details class="numbers"><summary>{SUMMARY}</summary>', format="html"
                )
                output.children = []
                output += [*shown, before, *printed, nodes.raw("", "</details>", format="html")]


class NameCodeOfFigures(SphinxPostTransform):
    """Name the folded code of a figure."""

    default_priority = 200  # once code is folded, at 199
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Go through all folded code."""
        for fold in self.document.findall(HideCodeCellNode):
            if any(is_figure(part) for part in fold.parent.children if part is not fold):
                fold["prompt_show"] += " of this figure"
                fold["prompt_hide"] += " of this figure"


class LiveOnScreen(SphinxPostTransform):
    """Mark cells of live controls, and the paragraphs before them, as not to be printed."""

    default_priority = 100
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Go through all cells."""
        for cell in self.document.findall(nodes.container):
            if "tag_remove-output" in cell["classes"]:
                place = cell.parent.index(cell)
                for part in cell.parent[max(0, place - 1) : place + 1]:
                    part["classes"].append("on-screen")


class ItalicProofs(SphinxPostTransform):
    """Set the word that begins a proof in italics."""

    default_priority = 900

    def run(self, **_: object) -> None:
        """Go through all proofs."""
        for word in list(self.document.findall(nodes.Text)):
            block = word.parent.parent
            if word.startswith("Proof. ") and "proof" in block.get("classes", []):
                rest = nodes.Text(word.removeprefix("Proof."))
                word.parent.replace(word, [nodes.emphasis("", "Proof."), rest])


def is_printed(part: nodes.Node) -> bool:
    """Return whether an output is text that the cell printed."""
    return isinstance(part, nodes.literal_block)


def is_figure(part: nodes.Node) -> bool:
    """Return whether an output holds a picture, or the frames of an explorer."""
    drawn = any('class="explorer"' in raw.astext() for raw in part.findall(nodes.raw))
    return drawn or any(part.findall(nodes.image))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_post_transform(FoldNumbers)
    app.add_post_transform(ItalicProofs)
    app.add_post_transform(LiveOnScreen)
    app.add_post_transform(NameCodeOfFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
